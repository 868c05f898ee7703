"""Random machines, hierarchies and traces for the tests of tasks, and both ways to follow them."""

import random

import jax
import jax.numpy as jnp
import numpy as np

from atlas.tasks import hrm, rm
from atlas.tasks.bridge import unpack
from twins.traversal import Twin

PROPS = 5
FLAT = rm.TaskSize(states=6, edges=3, literals=2)
NESTED = hrm.HierarchySize(machines=4, states=4, edges=3, literals=2, chains=39, links=4)


def random_transitions(rng: random.Random, states: int, edges: int, callees=(), quiet_start=False):
    """Edges between `states` running states and the terminal ones; some of them call."""
    transitions = []
    for u in range(states):
        for _ in range(rng.randint(1, edges)):
            target = rng.choice([*range(states), rm.ACCEPT, rm.ACCEPT, rm.REJECT])
            props = rng.sample(range(1, PROPS + 1), rng.randint(0 if rng.random() < 0.1 else 1, 2))
            literals = [p if rng.random() < 0.7 else -p for p in props]
            call = rng.choice([*callees, rm.UNUSED]) if callees and not (quiet_start and u == 0) else rm.UNUSED
            transitions.append(rm.Transition(u, target, literals, rng.choice([0.0, 0.5, 1.0]), call))
    return transitions


def random_flat(seed: int) -> rm.RewardMachine:
    """A flat machine of the size FLAT."""
    rng = random.Random(seed)
    return rm.resize(rm.machine(random_transitions(rng, rng.randint(1, 4), FLAT.edges)), FLAT)


def random_hierarchy(seed: int, most: int = 4) -> hrm.Hierarchy:
    """A hierarchy of up to `most` machines, so calls up to three deep, of the size NESTED."""
    rng = random.Random(seed)
    machines = rng.randint(2, most)
    order = rng.sample(range(machines), machines)
    lists = [None] * machines
    for place, machine in enumerate(order):
        callees = order[place + 1 :]
        edges = rng.randint(1, 3 if place == 0 else 2)
        lists[machine] = random_transitions(rng, rng.randint(1, 2), edges, callees)
    return hrm.resize(hrm.hierarchy(lists, root=order[0]), NESTED)


def random_trace(seed: int, length: int, density: float = 0.5) -> list[set[int]]:
    """Labels over the propositions of the random machines."""
    rng = random.Random(seed)
    return [{p for p in range(PROPS) if rng.random() < density} for _ in range(length)]


def twin(task) -> Twin:
    """The plain-Python twin of a task."""
    task = unpack(task)
    machines = [
        (
            [
                [(e.literals, e.target, e.reward, None if e.call == rm.UNUSED else e.call) for e in edges]
                for edges in machine.leaving
            ],
            machine.outcomes,
        )
        for machine in task.machines
    ]
    return Twin(machines, task.root)


def as_masks(trace, props: int = PROPS) -> jax.Array:
    """Labels as rows of booleans."""
    rows = np.zeros((len(trace), props), bool)
    for t, label in enumerate(trace):
        rows[t, list(label)] = True
    return jnp.asarray(rows)


def follower(formalism):
    """A jitted `(task, label rows) -> states, rewards, outcomes` after each label."""

    @jax.jit
    def run(task, labels):
        def step(state, label):
            guard = formalism.guards(task, state)
            holds = label[jnp.maximum(jnp.abs(guard) - 1, 0)]
            state, reward = formalism.advance(task, state, holds)
            return state, (state, reward, formalism.outcome(task, state))

        return jax.lax.scan(step, formalism.initial(task), labels)[1]

    return run
