"""The parts of a task before and after a state: followed side by side with the whole."""

import functools
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.tasks.edits import cuts
from atlas.tasks.hrm import Hierarchies
from atlas.tasks.rewards import sparse
from atlas.tasks.rm import (
    ACCEPT,
    ACCEPTED,
    REJECT,
    REJECTED,
    RUNNING,
    UNUSED,
    RewardMachine,
    RewardMachines,
    machine,
    resize,
)
from rules import hierarchy_rules, task_rules
from twins.drawn import drawn, single

STEPS = 24
KINDS = ("sequential", "dag", "cyclic", "hierarchical")
PROPS = 889


def formalism_of(kind):
    return (Hierarchies if kind == "hierarchical" else RewardMachines)(sample=lambda *_: None)


@functools.cache
def follower(kind):
    """`(task, state, label rows) -> states, outcomes`, from a given state on."""
    formalism = formalism_of(kind)

    @jax.jit
    def run(task, state, labels):
        def step(state, label):
            guard = formalism.guards(task, state)
            state, _ = formalism.advance(task, state, label[jnp.maximum(jnp.abs(guard) - 1, 0)])
            return state, (state, formalism.outcome(task, state))

        return jax.lax.scan(step, state, labels)[1]

    return run


@functools.cache
def parts(kind):
    prefix, suffix = cuts(sparse, single(drawn(kind), 0).size)
    return jax.jit(prefix), jax.jit(suffix)


@functools.cache
def stepper(kind):
    formalism = formalism_of(kind)
    return jax.jit(formalism.guards), jax.jit(formalism.advance)


def walk(kind, task, rng):
    """Labels that lead the task on, each with just what one way out asks for, and the states they lead to."""
    guards, advance = stepper(kind)
    state, rows, states = formalism_of(kind).initial(task), [], []
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


def nodes(kind, state):
    return tuple(np.asarray(formalism_of(kind).nodes(state)).tolist())


def cases(kind):
    """Tasks with labels, the states these lead to, and the numbers of those that are neither first nor last."""
    formalism = formalism_of(kind)
    for number in range(16):
        task, rng = single(drawn(kind), number), random.Random(number)
        labels, states = walk(kind, task, rng)
        start = nodes(kind, formalism.initial(task))
        under_way = [
            t
            for t, state in enumerate(states)
            if nodes(kind, state) != start and int(formalism.outcome(task, state)) == RUNNING
        ]
        if under_way:
            yield task, labels, states, rng.choice(under_way), rng


def obeys_the_rules(task):
    (task_rules if isinstance(task, RewardMachine) else hierarchy_rules)(task)


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_before_accepts_when_the_state_is_reached(kind):
    seen = 0
    for task, labels, states, t, _ in cases(kind):
        part, fits = parts(kind)[0](task, states[t])
        if not fits:
            continue
        seen += 1
        obeys_the_rules(part)
        _, outcomes = follower(kind)(part, formalism_of(kind).initial(part), labels)
        first = next(i for i, state in enumerate(states) if nodes(kind, state) == nodes(kind, states[t]))
        assert np.asarray(outcomes).tolist() == [RUNNING] * first + [ACCEPTED] * (STEPS - first)
    assert seen >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_after_goes_on_like_the_whole(kind):
    seen = accepted = 0
    for task, _, states, t, rng in cases(kind):
        part, fits = parts(kind)[1](task, states[t])
        if not fits:
            continue
        seen += 1
        obeys_the_rules(part)
        for _ in range(4):
            labels = noise(task, rng)
            _, whole = follower(kind)(task, states[t], labels)
            _, rest = follower(kind)(part, formalism_of(kind).initial(part), labels)
            assert np.asarray(whole).tolist() == np.asarray(rest).tolist()
            accepted += int(whole[-1]) == ACCEPTED
    assert seen >= 5
    assert accepted >= 5


def before(transitions, state):
    """The part of a small machine before a state."""
    whole = resize(machine(transitions), single(drawn("dag"), 0).size)
    return jax.device_get(parts("dag")[0](whole, jnp.int8(state))[0])


def test_what_must_be_avoided_still_must():
    part = before([(0, 1, [1, -2]), (0, REJECT, [2, -1]), (1, 2, [3]), (2, ACCEPT, [4])], 1)
    assert part.target[0].tolist() == [1, 2]
    assert part.outcome.tolist()[:3] == [RUNNING, ACCEPTED, REJECTED]


def test_other_goals_are_forgotten():
    part = before([(0, 1, [1, -2]), (0, ACCEPT, [2, -1]), (1, ACCEPT, [3])], 1)
    assert part.target[0].tolist() == [1, UNUSED]
    assert (part.target[1:] == UNUSED).all()
    assert part.guard[0, 0].tolist() == [1, 0], "nothing is left to be told apart from"
    assert part.outcome.tolist() == [RUNNING, ACCEPTED] + [RUNNING] * 4
    assert part.reward[0].tolist() == [1.0, 0.0]
