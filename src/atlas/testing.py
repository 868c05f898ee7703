"""The laws of teachers, scores, edits and domains, for members of your own: `check_teacher(MySettings(), MyTeacher)`.

Each check raises an AssertionError that says which law is broken. ATLAS's own members obey the same laws, in
`tests/contracts`. Nothing here needs pytest; with it, parametrise over the tuples of laws to see them one by one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Key

from atlas.domains import domain_of, settings_class, surface_of, vocabulary_of
from atlas.environment import make
from atlas.problems import require_edits
from atlas.tasks.packed import sound
from atlas.types import (
    KINDS,
    Domain,
    Echoes,
    Edit,
    Lineage,
    MapMaker,
    Outcome,
    Partial,
    Problem,
    Proposal,
    Record,
    Surface,
    Teacher,
)
from atlas.ued import Plan, TeacherConfig, teacher_of
from atlas.ued.scores import Played, ScoreFn, assess
from atlas.ued.supply import Supply
from atlas.vocabulary import Pictured

# Teachers. Problems are mere numbers: a teacher may not look into them.

NUM_ENVS: Final = 4
TOY_PROPS: Final = 8


def toy_supply(plan: Plan) -> Supply:
    """A supply of problems that are numbers."""

    def sample(key: Key[Array, ""], batch: int) -> Problem:
        return Problem(level=jax.random.bits(key, (batch,), jnp.uint32) | 1, task=jnp.zeros(batch, jnp.int8))

    def edit(
        key: Key[Array, ""], problem: Problem, lineage: Lineage, partial: Partial, weights: Any = None
    ) -> tuple[Problem, Lineage]:
        """The child is its parent plus what partial progress says; it counts its edits in the task."""
        child = Problem(level=problem.level + partial.level, task=problem.task + 1)
        edits = lineage.edits.at[0].set(jnp.int8(1))
        return child, lineage.replace(parent=lineage.number, generation=lineage.next_generation, edits=edits)

    nothing = Partial(level=jnp.uint32(0), task_state=jnp.int8(0), valid=jnp.array(False))
    return Supply(
        sample=sample,
        edit=edit,
        partial=nothing,
        plan=plan,
        check=(lambda problems: problems.level % 7 != 0) if plan.edits and plan.edits.screen else None,
        features=lambda problem: (problem.level % jnp.array([2, 3], jnp.uint32)).astype(jnp.float32),
        mentions=lambda problem: (problem.level % jnp.array([TOY_PROPS], jnp.uint32)).astype(jnp.int32),
        props=TOY_PROPS,
        edit_names=("one", "two", "echo"),
    )


def is_trivial(number: Any) -> Any:
    """Every fifth of these problems is trivial."""
    return number % 5 == 0


def toy_progress(batch: int) -> Partial:
    """The same partial progress on every problem."""
    one = Partial(level=jnp.uint32(2), task_state=jnp.int8(1), valid=jnp.array(True))
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch,)), one)


class Iteration(NamedTuple):
    """One iteration as an onlooker sees it."""

    train: bool
    before: Any
    proposal: Proposal
    outcome: Outcome
    after: Any

    @property
    def kind(self) -> str:
        """New, replayed or edited."""
        return KINDS[int(self.proposal.kind)]


@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """A teacher at work on numbers."""

    settings: TeacherConfig
    make: Callable[..., Teacher] | None = None
    """From settings and supply to the teacher; None: one of those with a name."""

    @functools.cached_property
    def plan(self) -> Plan:
        return self.settings.plan(NUM_ENVS)

    @functools.cached_property
    def teacher(self) -> Teacher:
        return (self.make or teacher_of)(self.settings, toy_supply(self.plan))

    @functools.cached_property
    def decide(self) -> Any:
        return jax.jit(self.teacher.decide)

    @functools.cached_property
    def iterate(self) -> Any:
        """Propose, let the problem decide what comes of it, observe."""

        def iterate(key: Key[Array, ""], state: Any, train: bool) -> tuple[Proposal, Outcome, Any]:
            proposed, proposal = self.teacher.propose(key, state, train)
            assessed = jax.tree.map(lambda x: x[:: self.plan.pool] if x.ndim else x, proposal)
            number = assessed.problems.level
            envs = len(number)
            heard = Problem(level=(number // 5 * 5 + 1).astype(jnp.uint32), task=assessed.problems.task)
            outcome = Outcome(
                score=(number % 1009).astype(jnp.float32),
                best_return=(number % 2).astype(jnp.float32),
                attempts=jnp.full(envs, 2, jnp.int32),
                solves=(number % 3).astype(jnp.int32),
                trivial=is_trivial(number),
                partial=toy_progress(envs),
                first=(number % 2).astype(jnp.int8),
                discounted=(number % 2).astype(jnp.float32),
                echo=Echoes(problems=heard, valid=number % 3 != 0),
            )
            return proposal, outcome, self.teacher.observe(proposed, assessed, outcome)

        return jax.jit(iterate, static_argnames="train")

    def history(self, iterations: int = 60, seed: int = 0) -> list[Iteration]:
        """What happens in so many iterations."""
        state = self.teacher.init(jax.random.key(seed))
        seen = []
        for key in jax.random.split(jax.random.key(seed + 1), iterations):
            key_decide, key_propose = jax.random.split(key)
            train = self.plan.num_eval is None or bool(self.decide(key_decide, state))
            proposal, outcome, after = self.iterate(key_propose, state, train)
            seen.append(Iteration(train, *jax.device_get((state, proposal, outcome, after))))
            state = after
        return seen

    @functools.cached_property
    def seen(self) -> list[Iteration]:
        """A history that all laws look at."""
        return self.history()


def batches_have_the_promised_size(work: Work) -> None:
    for one in work.seen:
        expected = work.plan.num_train * work.plan.pool if one.train else work.plan.num_eval
        sizes = {len(leaf) for leaf in jax.tree.leaves(one.proposal) if leaf.ndim}
        assert sizes == {expected}, f"a batch has {sizes} rows, and the plan says {expected}"


def the_kind_of_a_batch_is_true(work: Work) -> None:
    for one in work.seen:
        replayed = one.kind == "replayed"
        assert np.all((one.proposal.slots >= 0) == replayed), "replayed problems have slots, others -1"
        if not replayed:
            children = one.proposal.lineage.parent >= 0
            assert np.all(children == (one.kind == "edited")), "edited problems have a parent, new ones -1"


def rows_are_a_prefix_of_the_state(work: Work) -> None:
    """True exactly where the first axis counts problems: those are what devices divide."""
    last = work.seen[-1].after
    divided = jax.tree.map(lambda rows, part: jax.tree.map(lambda _: rows, part), work.teacher.rows, last)
    for (path, rows), leaf in zip(jax.tree_util.tree_leaves_with_path(divided), jax.tree.leaves(last), strict=True):
        assert isinstance(rows, bool), f"`rows` says {rows} for {jax.tree_util.keystr(path)}: a bool is needed"
        assert not rows or leaf.ndim, f"`rows` says that {jax.tree_util.keystr(path)} has rows, and it is one number"


def it_trains_and_only_scores_as_planned(work: Work) -> None:
    """Where the plan has batches that are only scored, there are such, and others: else nothing would be learnt."""
    trains = {one.train for one in work.seen}
    assert True in trains, "no iteration trains"
    assert work.plan.num_eval is None or False in trains, "the plan has a batch that is only scored, and there is none"


def new_problems_have_numbers_of_their_own(work: Work) -> None:
    numbers = [one.proposal.lineage.number for one in work.seen if one.kind != "replayed"]
    found = np.concatenate(numbers) if numbers else np.zeros(0)
    assert len(np.unique(found)) == len(found), "two problems have the same serial number"


def the_same_seed_gives_the_same_history(work: Work) -> None:
    jax.tree.map(np.testing.assert_array_equal, work.seen[:20], work.history(20))


def trivial_problems_are_never_kept(work: Work) -> None:
    for one in work.seen:
        memory = work.teacher.memory(one.after)
        if memory is not None:
            assert not np.any(is_trivial(memory.problems.level[memory.records.filled])), "a trivial problem was kept"


def replayed_problems_are_those_in_memory(work: Work) -> None:
    for one in work.seen:
        memory = work.teacher.memory(one.before)
        if memory is not None and one.kind == "replayed":
            slots = one.proposal.slots
            assert memory.records.filled[slots].all(), "an empty slot was replayed"
            np.testing.assert_array_equal(memory.problems.level[slots], one.proposal.problems.level)
            np.testing.assert_array_equal(memory.records.attempts[slots], one.proposal.record.attempts)
            np.testing.assert_array_equal(memory.lineage.number[slots], one.proposal.lineage.number)


TEACHER_LAWS: Final = (
    batches_have_the_promised_size,
    the_kind_of_a_batch_is_true,
    rows_are_a_prefix_of_the_state,
    it_trains_and_only_scores_as_planned,
    new_problems_have_numbers_of_their_own,
    the_same_seed_gives_the_same_history,
    trivial_problems_are_never_kept,
    replayed_problems_are_those_in_memory,
)


def check_teacher(settings: TeacherConfig, make: Callable[..., Teacher] | None = None) -> None:
    """All laws of teachers, on yours: with settings for a small memory, so that 60 iterations fill it."""
    work = Work(settings, make)
    for law in TEACHER_LAWS:
        law(work)


# Scores

TIME, BATCH, TOY_GAMMA = 12, 7, 0.9


def random_rollout(seed: int, finish: float = 0.25) -> dict[str, np.ndarray]:
    """What a score looks at; an episode ends after a step with this probability."""
    random = np.random.default_rng(seed)
    done = random.random((TIME, BATCH)) < finish
    return {
        "value": random.normal(size=(TIME, BATCH)).astype(np.float32),
        "advantage": random.normal(size=(TIME, BATCH)).astype(np.float32),
        "reward": random.random((TIME, BATCH)).round(2).astype(np.float32),
        "done": done,
        "accepted": done & (random.random((TIME, BATCH)) < 0.5),
    }


def toy_proposal(slots: Any, best: Any, attempts: Any, solves: Any, prior: Any = 0.5, plan: Any = 0) -> Proposal:
    """A batch of problems in some slots, and what was known of each."""

    def lineage(number: Any) -> Lineage:
        return Lineage(
            number=number,
            parent=jnp.int32(-1),
            generation=jnp.int16(0),
            edits=jnp.zeros(1, jnp.int8),
            arguments=jnp.zeros((1, 3), jnp.int16),
        )

    return Proposal(
        kind=jnp.int8(0),
        problems=Problem(level=jnp.zeros(BATCH), task=jnp.zeros(BATCH)),
        lineage=jax.vmap(lineage)(jnp.arange(BATCH, dtype=jnp.int32)),
        slots=jnp.asarray(slots, jnp.int32),
        record=Record(
            best_return=jnp.asarray(best, jnp.float32),
            attempts=jnp.asarray(attempts, jnp.int32),
            solves=jnp.asarray(solves, jnp.int32),
            prior=jnp.broadcast_to(jnp.asarray(prior, jnp.float32), (BATCH,)),
            plan=jnp.broadcast_to(jnp.asarray(plan, jnp.int32), (BATCH,)),
        ),
    )


def known_before(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slots with copies and new problems among them, and what was known of each."""
    random = np.random.default_rng(seed)
    slots = random.integers(-1, 4, BATCH)
    table_best, table_attempts = random.random(4).astype(np.float32) * 3, random.integers(1, 9, 4)
    table_solves = random.integers(0, table_attempts + 1)
    new = slots < 0
    best = np.where(new, -np.inf, table_best[slots])
    return slots, best, np.where(new, 0, table_attempts[slots]), np.where(new, 0, table_solves[slots])


Judge = Callable[[dict[str, Any], Any, Proposal], Outcome]


def judge_with(score: ScoreFn) -> Judge:
    """`judge(played, trivial, proposal)`: what a teacher is told, by this score."""

    def judge(played: dict[str, Any], trivial: Any, offered: Proposal) -> Outcome:
        one = Partial(level=jnp.uint8(0), task_state=jnp.int8(0), valid=jnp.array(False))
        partial = jax.tree.map(lambda x: jnp.broadcast_to(x, (BATCH,)), one)
        return assess(score, Played(**played, gamma=TOY_GAMMA), trivial, partial, offered)

    return jax.jit(judge)


def scores_are_finite_and_trivial_problems_score_nothing(judge: Judge) -> None:
    trivial = jnp.arange(BATCH) % 2 == 0
    new = np.full(BATCH, -1), np.full(BATCH, -np.inf), np.zeros(BATCH), np.zeros(BATCH)
    for finish in (0.0, 0.3, 1.0):
        outcome = jax.device_get(judge(random_rollout(0, finish), trivial, toy_proposal(*new)))
        assert outcome.score.shape == (BATCH,), f"a score gives a number a problem, not {outcome.score.shape}"
        assert np.all(np.isfinite(outcome.score)), f"a score is not finite where episodes end at a rate of {finish}"
        assert np.all(outcome.score[::2] == 0)


def steps_after_the_last_finished_episode_do_not_count(judge: Judge) -> None:
    played = random_rollout(3)
    played["done"][-4:] = False
    changed = {**played, "value": played["value"].copy(), "advantage": played["advantage"].copy()}
    changed["value"][-4:] += 100.0
    changed["advantage"][-4:] -= 100.0
    offered = toy_proposal(*known_before(3))
    before, after = (judge(p, jnp.zeros(BATCH, bool), offered).score for p in (played, changed))
    np.testing.assert_array_equal(before, after, "what an unfinished episode did changes the score")


def the_same_rollout_has_the_same_score(judge: Judge) -> None:
    once, again = (judge(random_rollout(5), jnp.zeros(BATCH, bool), toy_proposal(*known_before(5))) for _ in "ab")
    np.testing.assert_array_equal(once.score, again.score)


SCORE_LAWS: Final = (
    scores_are_finite_and_trivial_problems_score_nothing,
    steps_after_the_last_finished_episode_do_not_count,
    the_same_rollout_has_the_same_score,
)


def check_score(score: ScoreFn) -> None:
    """All laws of scores, on yours."""
    judge = judge_with(score)
    for law in SCORE_LAWS:
        law(judge)


# Edits of whole problems


def check_edit(edit: Edit[Problem], domain: str | None = None, count: int = 64, **settings: Any) -> None:
    """On problems of a domain, drawn as `atlas.make` draws them: wherever the edit applies, it gives a problem that can
    be, of the same sizes, and the same one for the same key."""
    env = make(domain, **settings)
    problems = env.sample_many(jax.random.key(0), count)
    require_edits([edit], jax.tree.map(lambda leaf: leaf[0], problems))
    run = jax.jit(jax.vmap(lambda key, one: (edit.applicable(one), *edit.apply(key, one))))
    keys = jax.random.split(jax.random.key(1), count)
    applies, children, _ = jax.device_get(run(keys, problems))
    assert applies.any(), f"it applies to none of {count} problems"
    levels, tasks = surface_of(env.name).sound(children.level), sound(children.task, len(env.propositions))
    for number in np.flatnonzero(applies):
        assert levels[number], f"the level that it makes of problem {number} cannot be"
        assert tasks[number], f"the task that it makes of problem {number} cannot be"
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(run(keys, problems))[1], children)


# Domains


@dataclasses.dataclass(frozen=True, eq=False)
class Visit:
    """A domain and some of its levels."""

    name: str
    count: int = 32

    @functools.cached_property
    def domain(self) -> Domain:
        return domain_of(settings_class(self.name)())

    @functools.cached_property
    def surface(self) -> Surface:
        return surface_of(self.name)

    @functools.cached_property
    def batch(self) -> Any:
        """Levels, batched."""
        return jax.jit(jax.vmap(self.domain.sample))(jax.random.split(jax.random.key(0), self.count))

    def levels(self) -> Iterator[Any]:
        """One by one, on the host."""
        leaves, tree = jax.tree.flatten(jax.device_get(self.batch))
        return (jax.tree.unflatten(tree, row) for row in zip(*leaves, strict=True))


def _alike(one: Any, other: Any) -> bool:
    pairs = zip(*map(jax.tree.leaves, (one, other)), strict=True)
    return all(np.shape(a) == np.shape(b) and np.array_equal(a, b) for a, b in pairs)


def contracts_are_kept(visit: Visit) -> None:
    assert isinstance(visit.domain, Domain), "something of atlas.types.Domain is missing"
    assert isinstance(visit.surface, Surface), "something of atlas.types.Surface is missing"
    settings = settings_class(visit.name)()
    assert settings.name == visit.name, f"the settings are called {settings.name}, and the row {visit.name}"
    assert settings.step_limit >= 1
    kind: Any = visit.surface.level_type
    assert kind.domain == visit.name, "levels say another domain"
    assert issubclass(kind, Pictured), "levels do not show themselves in notebooks (atlas.vocabulary)"


def the_vocabulary_is_whole(visit: Visit) -> None:
    vocabulary = vocabulary_of(visit.name)
    count = len(vocabulary.names)
    assert visit.domain.vocabulary is vocabulary
    assert len(set(vocabulary.names)) == count == len(vocabulary.phrases)
    assert all(vocabulary.ids[name] == number for number, name in enumerate(vocabulary.names))
    assert len(vocabulary.features) == len(visit.domain.mask) == count
    assert vocabulary.implies.shape == vocabulary.excludes.shape == (count, count)
    assert np.diag(vocabulary.implies).all(), "each proposition implies itself"
    assert not np.diag(vocabulary.excludes).any(), "no proposition excludes itself"


def levels_are_sound_and_measured(visit: Visit) -> None:
    assert np.all(visit.surface.sound(jax.device_get(visit.batch))), "a level that was drawn cannot be"
    stratum, values = visit.domain.strata
    measured = jax.device_get(jax.vmap(visit.domain.measure)(visit.batch))
    assert set(np.unique(measured[stratum])) <= set(values), f"{stratum} is none of {values}"


def an_episode_starts_at_its_level(visit: Visit) -> None:
    again = jax.jit(jax.vmap(lambda level: visit.domain.as_level(visit.domain.reset(level))))(visit.batch)
    assert _alike(again, visit.batch), "as_level(reset(level)) is another level"


def worlds_move_and_keep_their_form(visit: Visit) -> None:
    domain = visit.domain
    props = len(domain.vocabulary.names)

    def remember(before: Any, state: Any) -> Any:
        return domain.remember(before, state) if isinstance(domain, MapMaker) else None

    def walk(key: Key[Array, ""], level: Any) -> tuple[Any, Any, Any]:
        def step(now: Any, key: Key[Array, ""]) -> tuple[Any, Any]:
            key_action, key_wanted = jax.random.split(key)
            after = domain.step(now[0], jax.random.randint(key_action, (), 0, len(domain.actions)))
            seen, views = remember(now[1], after), [domain.view(after)]
            if isinstance(domain, MapMaker):
                asked = jax.random.randint(key_wanted, (2, 3), -1, props)
                views.append(domain.view_with_map(after, seen, *asked))
            return (after, seen), views

        start = domain.reset(level)
        (state, _), views = jax.lax.scan(step, (start, remember(None, start)), jax.random.split(key, 24))
        return views, domain.holds(state, jnp.arange(props)), domain.as_level(state)

    keys = jax.random.split(jax.random.key(1), visit.count)
    (views, *maps), holds, ends = jax.device_get(jax.jit(jax.vmap(walk))(keys, visit.batch))
    _require_bytes("a view", views, domain.view_shape, domain.view_fields)
    if isinstance(domain, MapMaker):
        _require_bytes("a view with a map", maps[0], domain.map_shape, domain.map_fields)
    assert np.all(visit.surface.sound(ends)), "a state that was reached cannot be a level"
    implies, excludes = domain.vocabulary.implies, domain.vocabulary.excludes
    for label in holds:
        assert np.all(label[implies[label].any(0)]), "a label lacks what it implies"
        assert not excludes[np.ix_(label, label)].any(), "two propositions hold that exclude each other"


def _require_bytes(what: str, views: np.ndarray, shape: tuple[int, int], fields: tuple[int, ...]) -> None:
    """Bytes of this shape, with no more than these fields."""
    assert views.shape[2:] == shape, f"{what} is {views.shape[2:]}, and {shape} was promised"
    assert views.dtype == np.uint8, f"{what} is made of {views.dtype}: bytes are needed"
    low = views.astype(int)
    for values in reversed(fields):
        bits = (values - 1).bit_length()
        assert (low % (1 << bits)).max() < values, f"{what} has a field with a value of {values} or more"
        low >>= bits
    assert low.max() == 0, f"{what} has more bits than its fields need"


def levels_are_written_and_read_back(visit: Visit) -> None:
    for level in visit.levels():
        small = visit.surface.crop(level)
        texts = visit.surface.format_level(small)
        assert set(texts) <= set(visit.surface.level_keys)
        assert _alike(visit.surface.parse_level(texts), small), f"read back as another level:\n{texts}"
        assert _alike(visit.surface.crop(visit.surface.pad(small)), small), "padded and cropped, it is another level"


def level_edits_give_levels_that_can_be(visit: Visit) -> None:
    keys = jax.random.split(jax.random.key(2), visit.count)
    for edit in visit.domain.edits:
        run = jax.jit(jax.vmap(lambda key, level, edit=edit: (edit.applicable(level), *edit.apply(key, level))))
        applies, after, arguments = jax.device_get(run(keys, visit.batch))
        assert arguments.shape[1:] == (3,)
        assert np.all(visit.surface.sound(after)[applies]), f"{edit.name} makes levels that cannot be"


DOMAIN_LAWS: Final = (
    contracts_are_kept,
    the_vocabulary_is_whole,
    levels_are_sound_and_measured,
    an_episode_starts_at_its_level,
    worlds_move_and_keep_their_form,
    levels_are_written_and_read_back,
    level_edits_give_levels_that_can_be,
)


def check_domain(name: str) -> None:
    """All laws of domains, on one that is installed or was registered (`atlas.domains.DOMAINS[name] = row`)."""
    visit = Visit(name)
    for law in DOMAIN_LAWS:
        law(visit)
