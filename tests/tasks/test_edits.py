"""The parts of a task before and after a state: followed side by side with the whole."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.machine import ACCEPT, REJECT, UNUSED, flat_task
from atlas.tasks.packed import RewardMachines, pack
from atlas.tasks.sample import formalism
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING
from rules import task_rules
from twins.drawn import drawn, single

STEPS = 24
KINDS = ("sequential", "dag", "cyclic", "hierarchical")
PROPS = 889


MACHINES = RewardMachines()
guards, advance = jax.jit(MACHINES.guards), jax.jit(MACHINES.advance)
CUTTING, _ = formalism(TaskConfig(), VOCABULARY)
before, after = jax.jit(CUTTING.prefix), jax.jit(CUTTING.suffix)


@jax.jit
def follow(task, state, labels):
    """States and outcomes after each label, from a given state on."""

    def step(state, label):
        guard = MACHINES.guards(task, state)
        state, _ = MACHINES.advance(task, state, label[jnp.maximum(jnp.abs(guard) - 1, 0)])
        return state, (state, MACHINES.outcome(task, state))

    return jax.lax.scan(step, state, labels)[1]


def walk(task, rng):
    """Labels that lead the task on, each with just what one way out asks for, and the states they lead to."""
    state, rows, states = MACHINES.initial(task), [], []
    for _ in range(STEPS):
        guard = np.asarray(guards(task, state))
        ways = [way for way in guard if (way != 0).any()]
        row = np.zeros(PROPS, bool)
        if ways and rng.random() < 0.9:
            way = rng.choice(ways)
            row[way[way > 0] - 1] = True
        state, _ = advance(task, state, jnp.asarray(row)[jnp.maximum(jnp.abs(guard) - 1, 0)])
        rows.append(row)
        states.append(state)
    return jnp.asarray(np.array(rows)), states


def noise(task, rng):
    """Labels of anything that the task mentions."""
    mentioned = np.unique(np.abs(np.asarray(task.guard)))
    rows = np.zeros((STEPS, PROPS), bool)
    for row in rows:
        row[[p - 1 for p in mentioned if p and rng.random() < 0.4]] = True
    return jnp.asarray(rows)


def nodes(state):
    return tuple(np.asarray(MACHINES.nodes(state)).tolist())


def cases(kind):
    """Tasks with labels, the states these lead to, and the numbers of those that are neither first nor last."""
    for number in range(16):
        task, rng = single(drawn(kind), number), random.Random(number)
        labels, states = walk(task, rng)
        start = nodes(MACHINES.initial(task))
        under_way = [
            t
            for t, state in enumerate(states)
            if nodes(state) != start and int(MACHINES.outcome(task, state)) == RUNNING
        ]
        if under_way:
            yield task, labels, states, rng.choice(under_way), rng


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_before_accepts_when_the_state_is_reached(kind):
    seen = 0
    for task, labels, states, t, _ in cases(kind):
        part, fits = before(task, states[t])
        if not fits:
            continue
        seen += 1
        task_rules(part)
        _, outcomes = follow(part, MACHINES.initial(part), labels)
        first = next(i for i, state in enumerate(states) if nodes(state) == nodes(states[t]))
        assert np.asarray(outcomes).tolist() == [RUNNING] * first + [ACCEPTED] * (STEPS - first)
    assert seen >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_after_goes_on_like_the_whole(kind):
    seen = accepted = 0
    for task, _, states, t, rng in cases(kind):
        part, fits = after(task, states[t])
        if not fits:
            continue
        seen += 1
        task_rules(part)
        for _ in range(4):
            labels = noise(task, rng)
            _, whole = follow(task, states[t], labels)
            _, rest = follow(part, MACHINES.initial(part), labels)
            assert np.asarray(whole).tolist() == np.asarray(rest).tolist()
            accepted += int(whole[-1]) == ACCEPTED
    assert seen >= 5
    assert accepted >= 5


def machine_before(edges, state):
    """The part of a small machine before a state."""
    whole = pack(flat_task(edges), single(drawn("dag"), 0).size)
    part = jax.device_get(before(whole, jnp.int8(state))[0])
    return jax.tree.map(lambda leaf: leaf[0], part)


def test_what_must_be_avoided_still_must():
    part = machine_before([(0, 1, [1, -2]), (0, REJECT, [2, -1]), (1, 2, [3]), (2, ACCEPT, [4])], 1)
    assert part.target[0].tolist() == [1, 2]
    assert part.outcome.tolist()[:3] == [RUNNING, ACCEPTED, REJECTED]


def test_other_goals_are_forgotten():
    part = machine_before([(0, 1, [1, -2]), (0, ACCEPT, [2, -1]), (1, ACCEPT, [3])], 1)
    assert part.target[0].tolist() == [1, UNUSED]
    assert (part.target[1:] == UNUSED).all()
    assert part.guard[0, 0].tolist() == [1, 0], "nothing is left to be told apart from"
    assert part.outcome.tolist() == [RUNNING, ACCEPTED] + [RUNNING] * 4
    assert part.reward[0].tolist() == [1.0, 0.0]
