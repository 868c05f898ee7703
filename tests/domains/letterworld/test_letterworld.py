"""LetterWorld against plain-Python twins: how it moves, what is seen and holds, samplers, edits, text, solver."""

import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
from atlas.config import TaskConfig
from atlas.domains.letterworld.alphabet import VOCABULARY
from atlas.domains.letterworld.domain import LetterWorld
from atlas.domains.letterworld.grid import ACTIONS, EMPTY, Level
from atlas.domains.letterworld.settings import LETTERS, SIZE, LetterWorldConfig
from atlas.domains.letterworld.solver import propose, reachable_many
from atlas.domains.letterworld.surface import LetterWorldSurface
from atlas.domains.letterworld.text import format_level, parse_level
from atlas.errors import AtlasError, LevelTextError
from atlas.problems import stack
from atlas.settings import ConfigError
from atlas.tasks.check import check
from atlas.tasks.english import english
from atlas.tasks.explain import explain, is_prose, shape
from atlas.tasks.ltlf import ltlf
from atlas.tasks.machine import follow, outcome
from atlas.tasks.packed import unstack
from atlas.tasks.sample import SAMPLERS, formalism
from atlas.types import Problem, unpack_pair
from atlas.vocabulary import ACCEPTED, REJECTED

DOMAIN = LetterWorld(LetterWorldConfig())
SURFACE = LetterWorldSurface()
MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
NUM = 24


@pytest.fixture(scope="module")
def maps():
    """Sampled maps, some with few letters, some with the agent on a letter."""
    keys = jax.random.split(jax.random.key(0), NUM)
    full = jax.jit(jax.vmap(DOMAIN.sample))(keys)
    few = jax.jit(jax.vmap(lambda key: DOMAIN.sample_for(key, jnp.array([0, 4, -1, 4]), minimal=True)))(keys)
    one = jax.jit(jax.vmap(DOMAIN.sample_minimal))(keys)
    return {name: [at(batch, i) for i in range(NUM)] for name, batch in (("full", full), ("few", few), ("one", one))}


def at(tree, i):
    return jax.tree.map(lambda x: np.asarray(x)[i], tree)


def on_device(level):
    return jax.tree.map(jnp.asarray, level)


def test_each_letter_is_there_twice_and_the_agent_on_an_empty_cell(maps):
    for level in maps["full"]:
        assert Counter(level.cells.flatten().tolist()) == {EMPTY: 25, **dict.fromkeys(range(1, 13), 2)}
        assert level.cells[tuple(level.position)] == EMPTY
        assert np.asarray(DOMAIN.possible(level)).all()
        assert int(DOMAIN.measure(level)["letters"]) == DOMAIN.strata[1][0]
    assert len({level.cells.tobytes() for level in maps["full"]}) == NUM


def test_minimal_maps_hold_what_is_asked_for_and_no_more(maps):
    for level in maps["few"]:
        assert Counter(level.cells.flatten().tolist()) == {EMPTY: 47, 1: 1, 5: 1}
        assert np.flatnonzero(DOMAIN.possible(level)).tolist() == [0, 4]
    assert {np.count_nonzero(level.cells) for level in maps["one"]} == {1}
    assert len({int(level.cells.max()) for level in maps["one"]}) > 3


def test_fewer_letters_are_a_setting():
    domain = LetterWorld(LetterWorldConfig(letters=("b", "d"), copies=3))
    level = domain.sample(jax.random.key(1))
    assert Counter(np.asarray(level.cells).flatten().tolist()) == {EMPTY: 43, 2: 3, 4: 3}
    assert np.flatnonzero(domain.mask).tolist() == [1, 3]
    with pytest.raises(ConfigError, match="at most 48"):
        LetterWorldConfig(copies=5)


def test_the_world_moves_as_its_twin(maps):
    step, look = jax.jit(DOMAIN.step), jax.jit(lambda s: (DOMAIN.view(s), DOMAIN.holds(s, jnp.arange(12))))
    rng = np.random.default_rng(0)
    for level in maps["full"][:4]:
        state, (row, column) = DOMAIN.reset(on_device(level)), level.position.tolist()
        for action in rng.integers(4, size=40).tolist():
            state = step(state, action)
            down, right = MOVES[ACTIONS[action]]
            row, column = (row + down) % SIZE, (column + right) % SIZE
            view, label = jax.device_get(look(state))
            assert np.asarray(state.position).tolist() == [row, column]
            for i, j in itertools.product(range(SIZE), repeat=2):
                assert view[i, j] == level.cells[(row + i - 3) % SIZE, (column + j - 3) % SIZE]
            here = int(level.cells[row, column])
            assert np.flatnonzero(label).tolist() == [here - 1] * (here != EMPTY)
            again = DOMAIN.as_level(state)
            assert (np.asarray(again.cells) == level.cells).all()
            told = SURFACE.observe(state)
            assert told["letter"] == (LETTERS[here - 1] if here else None)
            assert told["view"][3][3] == (told["letter"] or "empty")
    start = DOMAIN.as_level(DOMAIN.reset(on_device(maps["full"][0])))
    assert all((np.asarray(a) == b).all() for a, b in zip(*map(jax.tree.leaves, (start, maps["full"][0])), strict=True))


# Edits


@pytest.mark.parametrize("row", range(5), ids=[edit.name for edit in DOMAIN.edits])
def test_edits_obey_the_rules_and_their_names_are_true(row, maps):
    edit = DOMAIN.edits[row]
    on_letter = [level.replace(position=np.argwhere(level.cells)[0].astype(np.int8)) for level in maps["full"][:16]]
    crowded = [level.replace(cells=np.maximum(level.cells, 1)) for level in maps["few"][:2]]
    levels = [*maps["full"][:16], *maps["few"][:16], *maps["one"][:16], *on_letter, *crowded]
    batch = jax.tree.map(lambda *x: jnp.stack([jnp.asarray(one) for one in x]), *levels)
    applies = np.asarray(jax.jit(jax.vmap(edit.applicable))(batch))
    after, told = jax.device_get(
        jax.jit(jax.vmap(edit.apply))(jax.random.split(jax.random.key(row), len(levels)), batch)
    )
    for i, before in enumerate(levels):
        cells, agent = before.cells, tuple(before.position.tolist())
        beside = [int(code) for place, code in np.ndenumerate(cells) if place != agent]
        letters, empty = [code for code in beside if code], beside.count(EMPTY) > 0
        lacking = [c for c in range(1, 13) if int((cells == c).sum()) < 2]
        expected = {
            "move_agent": empty, "move_letter": bool(letters) and empty, "swap_letters": len(set(letters)) > 1,
            "add_letter": empty and bool(lacking), "remove_letter": len(letters) > 1,
        }[edit.name]  # fmt: skip
        assert applies[i] == expected
        if not expected:
            continue
        changed = at(after, i)
        here, there = (unpack_pair(int(x)) if x >= 0 else None for x in told[i][:2])
        code = int(told[i][2])
        wanted, place = cells.copy(), agent
        if edit.name == "move_agent":
            place = there
            assert cells[there] == EMPTY
            assert there != agent
        elif edit.name == "move_letter":
            assert cells[there] == EMPTY
            assert cells[here] == code
            wanted[here], wanted[there] = EMPTY, code
        elif edit.name == "swap_letters":
            assert cells[here] != cells[there]
            wanted[here], wanted[there] = cells[there], cells[here]
        elif edit.name == "add_letter":
            assert code in lacking
            assert cells[there] == EMPTY
            wanted[there] = code
        else:
            assert cells[here] == code
            wanted[here] = EMPTY
        assert (changed.cells == wanted).all()
        assert tuple(changed.position.tolist()) == place
        assert edit.name == "move_agent" or agent not in (here, there)
        assert SURFACE.edit_words(edit.name, told[i].tolist())
    assert applies.sum() > 0


# Text


def test_maps_are_read_back(maps):
    for level in [*maps["full"][:8], maps["full"][0].replace(position=np.argwhere(maps["full"][0].cells)[3])]:
        text = format_level(level)
        for written in (text, text.replace(" ", ""), f"\n\n{text}\n"):
            again = parse_level(written)
            assert (again.cells == level.cells).all()
            assert (np.asarray(again.position) == level.position).all()


GOOD = "\n".join([". . . . . . @", *[". a . . . . b"] * 6])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "0 lines: 7 are needed"),
        (GOOD.replace("@", "."), "there is no agent"),
        (GOOD.replace("b", "B", 1), "line 2, column 13: there is a second agent"),
        (GOOD.replace("a", "z", 1), "line 2, column 3: 'z' is no cell"),
        (GOOD.replace(". a", ". a a", 1), "line 2: the line has 8 cells"),
        (GOOD + "\n. . . . . . .", "8 lines"),
        ("x" * 3000, "3,000 characters"),
    ],
)
def test_mistakes_are_told(text, sentence):
    with pytest.raises(LevelTextError, match=sentence):
        parse_level(text)


def test_unsound_levels_are_found(maps):
    levels = [maps["full"][0]] * 3
    batch = jax.tree.map(lambda *x: np.stack(x), *levels)
    assert SURFACE.sound(batch).all()
    batch.cells[1, 0, 0], batch.position[2, 1] = 13, 7
    assert SURFACE.sound(batch).tolist() == [True, False, False]


# Tasks


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("visit a, then b, but never c", "!c U (a & X(!c U b))"),
        ("Visit A, then B", "F(a & X F b)"),
        ("go to the letter a", "F a"),
        ("visit a or b, then c", "F((a | b) & X F c)"),
        ("reach i while avoiding a", "!a U i"),
        ("do not step on c before visiting a", "!c U a"),
        ("visit a b", "F b"),
    ],
)
def test_sentences_about_letters(text, formula):
    task = english(text, VOCABULARY)
    assert shape(task, VOCABULARY) == shape(ltlf(formula, VOCABULARY), VOCABULARY)
    assert shape(english(explain(task, VOCABULARY), VOCABULARY), VOCABULARY) == shape(task, VOCABULARY)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_letter_can_be_named(letter):
    other = "b" if letter == "a" else "a"
    assert english(f"visit {letter}, then {other}", VOCABULARY) == english(
        f"visit {letter} then visit {other}", VOCABULARY
    )
    assert explain(english(f"visit {letter}", VOCABULARY), VOCABULARY) == f"Visit {letter}."


@pytest.fixture(scope="module")
def tasks():
    """Tasks of every sampler."""
    keys, mask = jax.random.split(jax.random.key(3), NUM), jnp.ones(12, bool)
    config = {name: TaskConfig(sampler=name, max_length=3, states=4, machines=2, max_avoid=2) for name in SAMPLERS}
    made = {name: formalism(config[name], VOCABULARY)[0] for name in SAMPLERS}
    return {name: jax.jit(jax.vmap(lambda key, m=m: m.sample(key, mask)))(keys) for name, m in made.items()}


def test_tasks_over_letters_are_said_and_sound(tasks):
    for name, batch in tasks.items():
        for task in unstack(batch)[:8]:
            text = explain(task, VOCABULARY)
            assert shape(english(text, VOCABULARY), VOCABULARY) == shape(task, VOCABULARY), text
            assert not [one for one in check(task, VOCABULARY) if one.level == "error"]
            assert is_prose(text) or name not in ("sequential", "reach-avoid")


# Solver


def shortest(problem, step_limit=60):
    """The length of the shortest plan, by sets of places and stacks, one step of the world at a time; None if none."""
    task, cells = problem.task, np.asarray(problem.level.cells)

    def see(stack, place):
        code = int(cells[place])
        labels = [frozenset({code - 1} if code else ())]
        return next(after for after, _ in follow_on(task, stack, labels))

    place = tuple(np.asarray(problem.level.position).tolist())
    front = {(place, see(None, place))}
    seen = set(front)
    for steps in range(step_limit + 1):
        if any(outcome(task, stack.node) == ACCEPTED for _, stack in front):
            return steps
        running = [(p, s) for p, s in front if outcome(task, s.node) != REJECTED]
        new = {((r + d) % SIZE, (c + e) % SIZE, s) for (r, c), s in running for d, e in MOVES.values()}
        front = {((r, c), see(s, (r, c))) for r, c, s in new} - seen
        seen |= front
    return None


def follow_on(task, stack, labels):
    """`follow`, from a stack."""
    if stack is None:
        return follow(task, labels)
    from atlas.tasks.machine import chains, holds, take

    for chain in chains(task, stack.node) if outcome(task, stack.node) == 0 else ():
        if all(holds(edge.literals, labels[0]) for edge in chain):
            return [take(task, stack, chain)]
    return [(stack, 0.0)]


def test_verdicts_are_exact(tasks, maps):
    """On full maps and on maps with two letters, against a search that steps through the product as it is written."""
    for name, batch in tasks.items():
        plain = unstack(batch)
        problems = [
            Problem.unchecked(level=maps["full" if i % 2 else "few"][i], task=plain[i]) for i in range(0, NUM, 3)
        ]
        screened = reachable_many(stack(problems))
        solved = SURFACE.solve_many(problems)
        for problem, solution, passes in zip(problems, solved, screened, strict=True):
            steps = shortest(problem)
            assert solution.plan_length == steps, name
            assert passes == (steps is not None) == (solution.verdict == "solvable")
            if steps:
                assert propose(problem, step_limit=steps).plan_length == steps
                assert "only" in propose(problem, step_limit=max(1, steps - 1)).reason or steps == 1


RING = "\n".join(["@ c . . . . c", "c . . . . . .", *[". . . . a . ."] * 4, "c . . . . . ."])


@pytest.mark.parametrize(
    ("task", "verdict", "reason"),
    [
        ("visit a", "solvable", "a plan of"),
        ("visit b", "unsolvable", "there is no b on the map"),
        ("visit a, then b or d", "unsolvable", "there is no b or d on the map"),
        ("visit a without visiting c", "unsolvable", "everything that can be done was tried"),
    ],
)
def test_reasons_are_told(task, verdict, reason):
    problem = Problem.unchecked(level=parse_level(RING), task=english(task, VOCABULARY))
    solution = atlas.solve(problem)
    assert solution.verdict == verdict
    assert reason in solution.reason


def test_what_is_over_at_the_start():
    level = parse_level(RING.replace("@ c", ". C"))
    assert atlas.solve(Problem.unchecked(level=level, task=english("visit c", VOCABULARY))).trivial
    banned = Problem.unchecked(level=level, task=english("visit a without visiting c", VOCABULARY))
    assert "first label" in atlas.solve(banned).reason


# From Python


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_problems_are_drawn_by_domain(seed):
    (problem,) = atlas.sample(1, domain="letterworld", tasks="reach-avoid", seed=seed)
    assert isinstance(problem.level, Level)
    assert atlas.explain(problem)


def test_what_a_domain_lacks_is_told():
    with pytest.raises(AtlasError, match="letterworld has no rooms"):
        atlas.sample(1, domain="letterworld", rooms=(2,))
    with pytest.raises(AtlasError, match="there is no domain 'letters'; there are minigrid, letterworld"):
        atlas.english("visit a", domain="letters")
    assert (
        atlas.explain(atlas.ltlf("F(a & X F b)", domain="letterworld"), domain="letterworld")
        == "Visit a, then visit b."
    )
    (record,) = atlas.follow(atlas.english("visit a", domain="letterworld"), ["a"], domain="letterworld")
    assert record["accepted"]
