"""Attempts at sets: actors with a known outcome, an episode lived through by hand, and what must not matter."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
from atlas.api import sample
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.domains.minigrid.grid import ACTIONS
from atlas.domains.minigrid.solver.prove import solve_many
from atlas.domains.minigrid.text import parse_level
from atlas.errors import AtlasError
from atlas.evaluation import play
from atlas.evaluation.play import Evaluator, Turn, attempt
from atlas.student.network import Observation, sample_action
from atlas.tasks.machine import ACCEPT, flat_task, outcome
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED
from students import problems as easy_problems
from students import student

LIMIT = 12


@dataclass(frozen=True)
class Scripted:
    """Plays what is known: `actions[problems, time]`."""

    def begin(self, lanes: int) -> Any:
        return ()

    def act(self, known: Any, moment: Turn, memory: Any) -> Any:
        time = jnp.minimum(moment.time, known.shape[1] - 1)
        return memory, known[moment.problem, time]


@cache
def some() -> list[Any]:
    """Solvable problems of several sizes, none trivial, with their plans."""
    drawn = sample(40, pairing="level", seed=4)
    solutions = solve_many(drawn, bound=False)
    return [(problem, found.plan) for problem, found in zip(drawn, solutions, strict=True) if found.plan][:24]


def done_already() -> Any:
    """A problem that its first label completes."""
    task = flat_task([(0, ACCEPT, [VOCABULARY.ids["front_ball_red"] + 1], 1.0)])
    return Problem(level=parse_level("##or##\n##^.##"), task=task)


@cache
def small() -> list[Any]:
    """Problems in which even an untrained student has luck now and then: the thing to look at is a turn away."""
    batch = easy_problems(7)
    return [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(7)]


@cache
def tiny(with_map: bool = False) -> Any:
    one = student(map=with_map)
    return one, one.init(jax.random.key(3))


def test_the_provers_plans_solve_everything_in_as_many_steps() -> None:
    problems, plans = zip(*some(), strict=True)
    longest = max(map(len, plans))
    actions = np.array([[*plan, *[0] * (longest - len(plan))] for plan in plans], np.int32)
    found = Evaluator(problems, attempts=3, lanes=10).of_actor(Scripted(), lambda batch: actions[batch.numbers])
    assert found.solved.all()
    assert found.steps.tolist() == [[len(plan)] * 3 for plan in plans]
    assert not found.timed_out.any()
    for problem, places in zip(problems, found.place.tolist(), strict=True):
        assert {outcome(problem.task, (m, u)) for m, u in places} == {ACCEPTED}


def test_who_does_nothing_solves_nothing() -> None:
    """Putting down with empty hands changes nothing; each attempt takes all the time there is."""
    problems = [*(problem for problem, _ in some()), done_already()]
    idle = np.full((len(problems), 1), ACTIONS.index("put_down"), np.int32)
    trials = Evaluator(problems, attempts=2, step_limit=LIMIT, lanes=10)
    found = trials.of_actor(Scripted(), lambda batch: idle[batch.numbers])
    assert not found.solved[:-1].any()
    assert (found.steps[:-1] == LIMIT).all()
    assert found.timed_out[:-1].all()
    # What the first label completes is solved, though nobody did anything, and marked.
    assert found.trivial.tolist() == [False] * (len(problems) - 1) + [True]
    assert found.solved[-1].all()
    assert (found.steps[-1] == 0).all()


def test_plans_that_work_for_some_problems_give_rates_of_one_and_zero() -> None:
    problems, plans = zip(*some(), strict=True)
    longest = max(map(len, plans))
    actions = np.array([[*plan, *[0] * (longest - len(plan))] for plan in plans], np.int32)
    actions[::2] = ACTIONS.index("put_down")
    trials = Evaluator(problems, attempts=3, lanes=10, step_limit=longest)
    rates = trials.of_actor(Scripted(), lambda batch: actions[batch.numbers]).solved.mean(1)
    assert rates.tolist() == [float(number % 2) for number in range(len(problems))]


def test_same_seed_same_result_whatever_the_lanes() -> None:
    found = [attempt(*tiny(), small(), attempts=3, step_limit=LIMIT, seed=5, lanes=lanes) for lanes in (256, 4)]
    for other in found[1:]:
        assert np.array_equal(found[0].solved, other.solved)
        assert np.array_equal(found[0].steps, other.steps)
    again = attempt(*tiny(), small(), attempts=3, step_limit=LIMIT, seed=5, lanes=4)
    assert np.array_equal(found[1].steps, again.steps)
    assert 0 < found[0].solved.mean() < 1
    another = attempt(*tiny(), small(), attempts=3, step_limit=LIMIT, seed=6, lanes=4)
    assert not np.array_equal(found[0].steps, another.steps)


def test_same_result_whatever_the_number_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven problems three times: 21 attempts, which three queues share evenly and two do not."""
    heard: list[tuple[int, int]] = []
    monkeypatch.setattr(play, "LEAST_LANES", 2)
    found = []
    for cores in (1, 2, 3):
        monkeypatch.setattr(play, "cores", lambda cores=cores: cores)
        trials = Evaluator(small(), attempts=3, step_limit=LIMIT, seed=5, lanes=6)
        found.append(trials.of_student(*tiny(), progress=lambda *now: heard.append(now)))
    for other in found[1:]:
        for name in ("solved", "timed_out", "steps", "place"):
            assert np.array_equal(getattr(found[0], name), getattr(other, name)), name
    assert heard[-1] == (21, 21)
    assert all(0 <= done <= total == 21 for done, total in heard)


def test_greedy_attempts_are_all_the_same() -> None:
    found = attempt(*tiny(), small(), attempts=3, step_limit=LIMIT, greedy=True, lanes=5)
    assert (found.steps == found.steps[:, :1]).all()
    assert (found.solved == found.solved[:, :1]).all()


@pytest.mark.parametrize("with_map", [False, True])
def test_an_attempt_by_hand(with_map: bool) -> None:
    """Every attempt, step by step with one lane, without a queue."""
    one, params = tiny(with_map)
    trials = Evaluator(small(), attempts=2, step_limit=LIMIT, seed=9, lanes=5)
    found = trials.of_student(one, params)
    for number in range(3):
        for turn in range(2):
            told = (found.solved, found.timed_out, found.steps, found.place[..., 1])
            assert by_hand(with_map, trials, number, turn) == tuple(each[number, turn] for each in told)


def by_hand(with_map: bool, trials: Evaluator, number: int, turn: int) -> tuple[bool, bool, int, int]:
    one, params = tiny(with_map)
    world = trials.batches[0].world.with_map(with_map)
    problem = jax.tree.map(lambda x: x[number], trials.batches[0].problems)
    graph = jax.tree.map(lambda x: x[None, None], world.formalism.graph(problem.task))
    key_noise, key_act = jax.random.split(jax.random.key(trials.seed))
    table = one.embed(params, jax.random.fold_in(key_noise, number)[None], graph)
    key = jax.random.fold_in(jax.random.fold_in(key_act, number), turn)
    state, hidden, previous = world.reset(problem), one.initial_hidden(1), jnp.zeros(1, jnp.uint8)
    if int(world.formalism.outcome(problem.task, state.task)) == ACCEPTED:
        return True, False, 0, int(state.task)
    for time in range(LIMIT):
        seen = Observation(
            view=world.view(problem.task, state)[None],
            nodes=world.formalism.nodes(state.task)[None],
            previous=previous,
            start=jnp.array([time == 0]),
        )
        hidden, logits, _ = one.step(params, table, seen, hidden)
        action = sample_action(jax.random.uniform(jax.random.fold_in(key, time))[None], logits)[0]
        previous = action.astype(jnp.uint8)
        state, step = world.step(problem, state, action[0])
        if step.done:
            return bool(step.accepted), bool(step.truncated), int(state.time), int(state.task)
    raise AssertionError("the limit ends every episode")


def test_flat_tasks_and_hierarchies_in_one_set() -> None:
    batch = easy_problems(2, hierarchical=True)
    nested = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(2)]
    flat = small()[:2]
    found = attempt(*tiny(), [nested[0], flat[0], nested[1], flat[1]], attempts=2, step_limit=LIMIT, lanes=3)
    assert found.steps.shape == (4, 2)
    assert (((found.steps >= 1) | found.trivial[:, None]) & (found.steps <= LIMIT)).all()
    for problem, places in zip((nested[0], flat[0], nested[1], flat[1]), found.place, strict=True):
        machines, states = problem.task.outcome.shape
        assert (places < (machines, states)).all()


def test_progress_is_told_and_ends_at_the_total() -> None:
    told: list[tuple[int, int]] = []
    Evaluator(small(), attempts=2, step_limit=LIMIT, lanes=5).of_student(*tiny(), lambda *now: told.append(now))
    assert told[-1] == (14, 14)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_policy_of_the_index_ablation_says_what_binds_it() -> None:
    one = student(task="index")
    params = one.init(jax.random.key(0))
    assert attempt(one, params, small()[:1], attempts=1, step_limit=2).steps.shape == (1, 1)
    words = ", then ".join(f"go to a {colour} {thing}" for colour in ("red", "blue", "green") for thing in THINGS)
    large = atlas.english(words)
    problem = small()[0].replace(task=large)
    with pytest.raises(AtlasError, match=r"student\.network\.task = index.*16 states.*needs 19"):
        attempt(one, params, [problem], attempts=1)


THINGS = ("ball", "square", "key", "open door", "closed door", "locked door")


@pytest.mark.parametrize("bad", [{"attempts": 0}, {"step_limit": 0}, {"lanes": 0}])
def test_numbers_that_make_no_sense(bad: dict[str, int]) -> None:
    with pytest.raises(AtlasError, match="at least 1"):
        Evaluator(small(), **bad)
