"""Random tasks and traces, and both ways to follow them."""

import random

import jax
import jax.numpy as jnp
import numpy as np

from atlas.tasks.machine import ACCEPT, NO_CALL, REJECT, Edge, Task, TaskSize, hierarchy, machine
from twins.traversal import Twin

PROPS = 5
FLAT = TaskSize(machines=1, states=6, edges=3, literals=2)
NESTED = TaskSize(machines=4, states=4, edges=3, literals=2, chains=39, links=4)


def random_machine(rng: random.Random, states: int, edges: int, callees=()):
    """Edges between `states` running states and the terminal ones; some of them call."""
    found = []
    for u in range(states):
        for _ in range(rng.randint(1, edges)):
            target = rng.choice([*range(states), ACCEPT, ACCEPT, REJECT])
            props = rng.sample(range(1, PROPS + 1), rng.randint(0 if rng.random() < 0.1 else 1, 2))
            literals = tuple(p if rng.random() < 0.7 else -p for p in props)
            call = rng.choice([*callees, NO_CALL]) if callees else NO_CALL
            found.append(Edge(u, target, literals, rng.choice([0.0, 0.5, 1.0]), call))
    return machine(found)


def random_flat(seed: int) -> Task:
    """A flat task that fits FLAT."""
    rng = random.Random(seed)
    return Task((random_machine(rng, rng.randint(1, 4), FLAT.edges),))


def random_hierarchy(seed: int, most: int = 4) -> Task:
    """A task of two to `most` machines, so calls up to three deep, that fits NESTED."""
    rng = random.Random(seed)
    order = rng.sample(range(count := rng.randint(2, most)), count)
    machines = [None] * count
    for place, number in enumerate(order):
        edges = rng.randint(1, 3 if place == 0 else 2)
        machines[number] = random_machine(rng, rng.randint(1, 2), edges, order[place + 1 :])
    return hierarchy(machines, root=order[0])


def random_trace(seed: int, length: int, density: float = 0.5) -> list[set[int]]:
    """Labels over the propositions of the random machines."""
    rng = random.Random(seed)
    return [{p for p in range(PROPS) if rng.random() < density} for _ in range(length)]


def twin(task: Task) -> Twin:
    """The plain-Python twin of a task."""
    plain = [
        (
            [
                [(e.literals, e.target, e.reward, None if e.call == NO_CALL else e.call) for e in edges]
                for edges in one.leaving
            ],
            one.outcomes,
        )
        for one in task.machines
    ]
    return Twin(plain, task.root)


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
