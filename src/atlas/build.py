"""Wires a config into a `Trainer`: asks the tables of domains, samplers, scores and teachers."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Key

from atlas.config import Config
from atlas.devices import ALONE, Layout
from atlas.domains import domain_of, screen_of, surface_of, vocabulary_of
from atlas.errors import AtlasError, nearest
from atlas.problems import (
    EDITS,
    PRECEDING,
    SUCCEEDING,
    SampleBatchFn,
    batch_sampler,
    domain_features,
    edit_names,
    editor,
    mentions,
    require_edits,
    task_features,
)
from atlas.rollout import Demonstrations, Player, echoer
from atlas.student import ppo
from atlas.student.encode import Cells
from atlas.student.network import Lesson, Student, Transitions
from atlas.tasks.edits import tell_edit as tell_task_edit
from atlas.tasks.edits import tell_state
from atlas.tasks.packed import count_states, flattened
from atlas.tasks.rewards import count_paths
from atlas.tasks.sample import formalism
from atlas.training import Effort, Play, Trainer, TrainState, annealing, compiler_options
from atlas.types import Echoes, Guide, Partial, Problem
from atlas.ued import EditConfig, teacher_of
from atlas.ued.curriculum import Observer
from atlas.ued.scores import SCORES, Played
from atlas.ued.supply import ECHO, Supply
from atlas.world import World


@dataclass(frozen=True)
class Parts:
    """The parts of an experiment."""

    config: Config
    world: World
    student: Student
    player: Player
    sample: SampleBatchFn
    """Draws problems as the settings say."""


def parts(config: Config, layout: Layout = ALONE) -> Parts:
    """World, student, player and sampler of a config."""
    domain = domain_of(config.domain)
    settings = config.student.ppo
    tasks, _ = formalism(config.tasks, domain.vocabulary, settings.gamma, domain.mask, config.pairing.minimal)
    world = World(domain, tasks, config.domain.step_limit).with_map(config.student.network.map)
    if config.tasks.reward == "outlook":
        world = dataclasses.replace(world, guide=_guide(config), gamma=settings.gamma)
    cells = Cells(*world.view_shape, world.view_fields)
    student = Student(config.student.network, cells, len(domain.actions), domain.vocabulary.features)
    player = Player(world, student, config.run.rollout, settings.phases, settings.truncation == "bootstrap", layout)
    return Parts(config, world, student, player, _sampler(config, world))


def _sampler(config: Config, world: World, layout: Layout = ALONE) -> SampleBatchFn:
    """Draws problems as the settings say. Where they are screened, each device draws and checks a part of them."""
    check = screen_of(config.domain) if config.pairing.solvable else None
    return batch_sampler(config.pairing, world.domain, world.formalism, check, layout.by_rows)


def build(config: Config, layout: Layout = ALONE, made: Parts | None = None) -> Trainer:
    """The whole experiment as pure functions, of parts that were made already or else are made here."""
    config.require_even(layout.shards)
    _require_prover(config)
    made = made or parts(config, layout)
    settings, plan, world = config.student.ppo, config.plan, made.world
    learner = ppo.Learner(made.student, settings, ppo.optimiser(settings), layout)

    def pools(problems: Problem) -> Problem:
        """Problems by environment: those of one stand together."""
        return jax.tree.map(lambda x: x.reshape(-1, plan.pool, *x.shape[1:]), problems)

    def init_student(key: Key[Array, ""]) -> tuple[Any, Any]:
        params = made.student.init(key)
        return params, learner.init(params)

    def play(key: Key[Array, ""], params: Any, problems: Problem, resume: Any) -> Play:
        if plan.echo:
            key, key_echo = jax.random.split(key)
        rollout, running = made.player.play_pools(key, params, pools(problems), resume)
        steps = rollout.steps
        advantage = ppo.advantages(
            steps.reward, steps.value, steps.done, steps.cut_value, rollout.experience.last_value,
            settings.gamma, settings.gae_lambda,
        )  # fmt: skip
        return Play(
            rollout=rollout.experience,
            played=Played(
                value=steps.value,
                advantage=advantage,
                reward=steps.reward,
                done=steps.done,
                accepted=steps.accepted,
                gamma=settings.gamma,
            ),
            trivial=rollout.trivial[:, 0],
            partial=rollout.partial,
            resume=running if plan.carry else None,
            echo=echoes(key_echo, problems, steps) if plan.echo else None,
        )

    def echoes(key: Key[Array, ""], problems: Problem, steps: Transitions) -> Echoes:
        """Tasks read off the first episode of each environment, in its level."""
        one = echoer(world, config.tasks.lengths, machines=config.tasks.sampler != "sequential")
        last = jnp.where(jnp.any(steps.done, axis=0), jnp.argmax(steps.done, axis=0), len(steps.done) - 1)
        keys = jax.random.split(key, len(last))
        each = layout.shard_map(jax.vmap(one), 0, 0)
        heard, valid = each(keys, problems.level, steps.action.T, last.astype(jnp.int32))
        return Echoes(problems=heard, valid=valid)

    cloning, remaining = config.student.cloning, annealing(plan, config.run.rollout / config.run.total_steps)

    def lesson(key: Key[Array, ""], state: TrainState) -> tuple[Array, Lesson]:
        """Plans to imitate, and with which weight."""
        left = jnp.maximum(0.0, 1.0 - (1.0 - remaining(state)) / cloning.until)
        weight = jnp.where(state.shown.count > 0, cloning.weight * left, 0.0)
        return weight, made.player.demonstrate(key, state.shown, weight > 0, plan.num_train)

    resume = None
    if plan.carry:
        batch = plan.num_train * plan.pool
        resume = made.player.idle(jax.eval_shape(lambda: pools(made.sample(jax.random.key(0), batch))))
    score = plan.score or "constant"
    if score not in SCORES:
        raise AtlasError(f"there is no score '{score}'{nearest(score, SCORES) or '; there are ' + ', '.join(SCORES)}")
    names = [field.name for field in dataclasses.fields(ppo.Losses)]
    losses = {name: jnp.zeros(()) for name in names if name != "cloning" or cloning.plans}
    return Trainer(
        teacher=teacher_of(config.teacher, supply_of(made, layout)),
        plan=plan,
        score=SCORES[score],
        init_student=init_student,
        play=play,
        learn=learner.learn,
        no_losses=ppo.Losses(**losses),
        resume=resume,
        layout=layout,
        average=settings.average,
        anneal=remaining if settings.anneal else None,
        by_clock=(settings.anneal or cloning.plans > 0) and config.run.time_limit is not None,
        shown=_shown(made) if cloning.plans else None,
        lesson=lesson if cloning.plans else None,
        is_brief=config.run.total_steps <= BRIEF,
        is_long=config.run.time_limit is None or config.run.time_limit > SHORT,
    )


def supply_of(made: Parts, layout: Layout = ALONE) -> Supply:
    """What a teacher is given."""
    config, world, plan = made.config, made.world, made.config.plan

    def features(problem: Problem) -> Array:
        """A problem from outside: what its level looks like to its domain, and what its task asks for."""
        graph = world.formalism.graph(problem.task)
        asked = mentions(graph)
        numbers = [*domain_features(world.domain, problem.level, asked).values(), *task_features(graph)]
        return jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers])

    def partial_progress() -> Partial:
        """On one problem: its shapes are what matters."""
        problem = jax.tree.map(lambda x: x[0], made.sample(jax.random.key(0), 1))
        return Partial(level=problem.level, task_state=world.reset(problem).task, valid=jnp.array(False))

    if plan.edits is not None and plan.edits.more:
        one = jax.eval_shape(lambda: jax.tree.map(lambda x: x[0], made.sample(jax.random.key(0), 1)))
        require_edits([EDITS[name] for name in plan.edits.more], one)
    return Supply(
        sample=_sampler(config, world, layout),
        edit=editor(plan.edits or EditConfig(least=1, most=1), world.domain, world.formalism),
        partial=jax.eval_shape(partial_progress),
        plan=plan,
        each=lambda one: layout.shard_map(jax.vmap(one), 0, 0),
        check=layout.shard_map(screen_of(config.domain), 0, 0) if plan.edits and plan.edits.screen else None,
        features=features,
        mentions=lambda problem: mentions(world.formalism.graph(problem.task), bans=False),
        props=len(world.domain.mask),
        edit_names=edit_table(config, world),
    )


def tell_edit(domain: str, name: str, arguments: Sequence[int]) -> str:
    """One edit of a problem of a domain with its arguments: `add_object(red ball at 3,4)`."""
    words = surface_of(domain).edit_words(name, arguments)
    words = words or tell_task_edit(name, arguments, vocabulary_of(domain).names)
    hindsight = {PRECEDING: "end where {} is reached", SUCCEEDING: "start where {} was reached"}
    if name in hindsight:
        words = hindsight[name].format(tell_state(arguments[0]))
    if name == ECHO:
        words = "the task is what was done in an episode"
    return f"{name}({words or ', '.join(str(x) for x in arguments if x != -1)})"


def edit_table(config: Config, world: World) -> tuple[str, ...]:
    """The names of all ways in which a teacher makes one problem of another: rows are what a lineage records."""
    more = config.plan.edits.more if config.plan.edits else ()
    return (*edit_names(world.domain, world.formalism, more), *((ECHO,) if config.plan.echo else ()))


def _guide(config: Config) -> Guide:
    """What tells how far acceptance is, in the domain of a config."""
    check = screen_of(config.domain)
    if not isinstance(check, Guide):
        raise AtlasError(f"tasks.reward = outlook is not allowed: the check of {config.domain.name} tells no distances")
    return check


def _shown(made: Parts) -> Demonstrations:
    """The shapes of the plans that a student is shown."""
    config = made.config
    plans, steps = config.student.cloning.plans, config.domain.step_limit

    def empty() -> Demonstrations:
        one = made.sample(jax.random.key(0), 1)
        return Demonstrations(
            problems=jax.tree.map(lambda leaf: jnp.zeros((plans, *leaf.shape[1:]), leaf.dtype), one),
            plans=jnp.zeros((plans, steps), jnp.uint8),
            count=jnp.int32(0),
        )

    shapes: Demonstrations = jax.eval_shape(empty)
    return shapes


def _require_prover(config: Config) -> None:
    """Fail unless there is what is needed where settings ask for plans."""
    plans = config.student.cloning.plans
    asking = {"teacher.score = oracle": config.plan.prove is not None, f"student.cloning.plans = {plans}": plans > 0}
    for words in (words for words, asks in asking.items() if asks):
        domain = config.domain.name
        if getattr(surface_of(domain), "solve_many", None) is None:
            raise AtlasError(f"{words} needs the plans of a prover, and the domain {domain} has none")
        if jax.process_count() > 1:
            raise AtlasError(f"{words} needs one host: plans are looked for beside it")


BRIEF = 100_000
"""Env steps of a run that is over in seconds."""
SHORT = 10.0
"""Minutes of a run whose start should be quick rather than its proposals."""


def jit_for(config: Config, effort: Effort) -> Callable[..., Any]:
    """`jax.jit` for a program of a run; all of a run that is over in seconds are compiled in haste."""
    is_brief = config.run.total_steps <= BRIEF
    return partial(jax.jit, compiler_options=compiler_options("brief" if is_brief else effort))


AT_ONCE = 256
"""Tasks whose paths are counted side by side: that needs memory."""


def observer(made: Parts, trainer: Trainer) -> Observer:
    """An observer of the teacher's curriculum that knows the problems and edits of this experiment."""
    domain, screen = made.world.domain, screen_of(made.config.domain)

    def sizes(problem: Problem) -> dict[str, Array]:
        return {**domain.measure(problem.level), "states": count_states(problem.task)}

    jit = jit_for(made.config, "few calls")

    @jit
    def inspect_both(flat: Problem, tasks: Any) -> dict[str, Array]:
        paths = jax.lax.map(count_paths, tasks, batch_size=AT_ONCE)
        return {"solvable": screen(flat), "paths": paths.count, "path_length": paths.mean}

    def inspect(problems: Problem) -> dict[str, Array]:
        return inspect_both(problems.replace(task=flattened(problems.task)), problems.task)

    return Observer(
        teacher=teacher_of(made.config.teacher, supply_of(made)),
        plan=trainer.plan,
        edit_names=edit_table(made.config, made.world),
        tell_edit=partial(tell_edit, made.config.domain.name),
        sizes=sizes,
        inspect=inspect,
        solved_by=(domain.strata[0], "states"),
        jit=jit,
    )
