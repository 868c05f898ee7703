"""Plans of the prover in the buffer: what is asked, what is noted, and that a run that is resumed asks the same."""

import dataclasses
from concurrent.futures import Future

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.build import build, parts
from atlas.config import Config, TaskConfig
from atlas.domains import surface_of
from atlas.domains.minigrid.presets import TINY
from atlas.errors import AtlasError
from atlas.runs.background_prover import ASKED, NOT_FOUND, Prover, plan_lengths
from atlas.settings import ConfigError
from atlas.struct import Struct
from atlas.types import Lineage
from atlas.ued import PLRConfig
from atlas.ued import buffer as buffers

CONFIG = dataclasses.replace(
    TINY,
    pairing=dataclasses.replace(TINY.pairing, how="level", solvable=True),
    teacher=PLRConfig(score="oracle", num_eval=8, buffer=TINY.teacher.buffer),
)
CAPACITY = 6
GAMMA = CONFIG.student.ppo.gamma


class State(Struct):
    teacher: object


class TeacherState(Struct):
    buffer: buffers.Buffer


class AtOnce:
    """A pool that works in this process."""

    def submit(self, function, *arguments):
        answer = Future()
        answer.set_result(function(*arguments))
        return answer

    def shutdown(self, **_):
        pass


@pytest.fixture(scope="module")
def problems():
    sample = parts(CONFIG).sample
    return jax.device_get(jax.jit(lambda key: sample(key, CAPACITY))(jax.random.key(0)))


@pytest.fixture(scope="module")
def lengths(problems):
    """What the prover says of each."""
    rows = [jax.tree.map(lambda x, n=n: x[n], problems) for n in range(CAPACITY)]
    return plan_lengths("minigrid", rows, CONFIG.domain.step_limit)


def start(problems):
    """The last slot is empty, the first was never solved."""
    numbers = jnp.arange(CAPACITY, dtype=jnp.int32)
    lineage = Lineage.unchecked(
        number=numbers,
        parent=numbers * 0 - 1,
        generation=jnp.zeros(CAPACITY, jnp.int16),
        edits=jnp.full((CAPACITY, 1), -1, jnp.int8),
        arguments=jnp.full((CAPACITY, 1, 3), -1, jnp.int16),
    )
    empty = buffers.empty(CAPACITY, *jax.tree.map(lambda x: x[0], (problems, lineage)))
    records = empty.records.replace(
        filled=numbers < CAPACITY - 1,
        solves=jnp.minimum(numbers, 1),
        score=jnp.full(CAPACITY, 0.01),
        discounted=jnp.full(CAPACITY, 0.25),
    )
    buffer = buffers.Buffer(records=records, problems=problems, lineage=lineage, clock=jnp.int32(0))
    return State(teacher=TeacherState(buffer=buffer))


@pytest.fixture
def prover():
    made = Prover(CONFIG, lambda teacher: teacher.buffer)
    made.close()
    made.pool = AtOnce()
    return made


def test_plans_are_asked_for_what_was_solved_and_noted_the_next_time(problems, lengths, prover):
    assert any(length > 0 for length in lengths)
    asked = prover(start(problems))
    records = asked.teacher.buffer.records
    np.testing.assert_array_equal(records.plan, [0, *[ASKED] * (CAPACITY - 2), 0])
    np.testing.assert_array_equal(records.score, start(problems).teacher.buffer.records.score)
    noted = prover(asked).teacher.buffer.records
    for slot in range(1, CAPACITY - 1):
        assert noted.plan[slot] == lengths[slot]
        expected = max(GAMMA ** (lengths[slot] - 1) - 0.25, 0.0) if lengths[slot] != NOT_FOUND else 0.01
        assert noted.score[slot] == pytest.approx(expected, abs=1e-6)
    assert noted.plan[0] == noted.plan[-1] == 0


def test_a_resumed_run_asks_again_for_what_was_under_way(problems, prover):
    asked = prover(start(problems))
    expected = prover(asked)
    other = Prover(CONFIG, prover.memory)
    other.close()
    other.pool = AtOnce()
    jax.tree.map(np.testing.assert_array_equal, other(asked), expected)


def test_who_left_the_buffer_meanwhile_gets_no_plan(problems, lengths, prover):
    asked = prover(start(problems))
    buffer = asked.teacher.buffer
    records = buffer.records.replace(plan=buffer.records.plan.at[2].set(0), solves=buffer.records.solves.at[2].set(0))
    after = prover(State(teacher=TeacherState(buffer=buffer.replace(records=records)))).teacher.buffer.records
    assert after.plan[2] == 0
    assert after.plan[3] == lengths[3]


def test_a_domain_without_a_prover_is_a_sentence(monkeypatch):
    surface = type(surface_of("minigrid"))
    monkeypatch.setattr(surface, "solve_many", None)
    with pytest.raises(AtlasError, match="needs the plans of a prover, and the domain minigrid has none"):
        build(CONFIG)


def test_shaped_rewards_are_a_sentence():
    with pytest.raises(ConfigError, match=r"tasks\.reward"):
        Config(teacher=PLRConfig(score="oracle"), tasks=TaskConfig(reward="shaped"))
