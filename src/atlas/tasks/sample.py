"""Samplers of tasks, by name. Each is jittable and takes the mask of propositions it may use."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Key

from atlas.config import TaskConfig
from atlas.settings import require
from atlas.tasks import nest, walk
from atlas.tasks.edits import task_edits
from atlas.tasks.hierarchy_edits import lone
from atlas.tasks.hindsight import cuts
from atlas.tasks.hrm import MAX_NODES, Hierarchies, Hierarchy, HierarchySize
from atlas.tasks.labels import pack_or_all, pick, relation
from atlas.tasks.rewards import REWARDS, Shaped
from atlas.tasks.rm import ACCEPTED, RUNNING, UNUSED, RewardMachine, RewardMachines, TaskSize, resize
from atlas.vocabulary import Vocabulary

SampleFn = Callable[[Key[Array, ""], Bool[Array, "props"]], Any]
"""`(key, mask) -> task`."""


def draw_sequence(key: Key[Array, ""], mask: Bool[Array, "props"], least: int, most: int) -> RewardMachine:
    """A sequence of `least` to `most` propositions, length and propositions uniform; 1 for the last of them."""
    numbers = jax.random.uniform(key, (most + 1,))
    length = least + jnp.floor(numbers[0] * (most + 1 - least)).astype(jnp.int32)
    props = jax.vmap(pick, (0, None))(numbers[1:], pack_or_all(mask))
    states = jnp.arange(most + 1)
    before = states < length
    return RewardMachine(
        target=jnp.where(before, states + 1, UNUSED).astype(jnp.int8)[:, None],
        guard=jnp.where(before, jnp.append(props, 0) + 1, 0).astype(jnp.int16)[:, None, None],
        reward=(states == length - 1).astype(jnp.float32)[:, None],
        outcome=jnp.where(states == length, ACCEPTED, RUNNING).astype(jnp.int8),
    )


def _sequential(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> RewardMachine:
        return draw_sequence(key, mask, config.min_length, config.max_length)

    return sample, TaskSize(states=config.max_length + 1, edges=1, literals=1)


def walks(config: TaskConfig, structure: str) -> walk.Walks:
    """How the settings say that one machine of a structure is walked."""
    return walk.Walks(
        matrix=walk.MATRICES[structure],
        states=config.states,
        edges=config.edges,
        steps=max(1, int(config.connectivity * config.states)),
        restart=config.restart,
        most=config.max_walks,
        forward=structure != "cyclic",
    )


def _walked(structure: str) -> Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize]]:
    def make(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, TaskSize]:
        how = walks(config, structure)
        constraints = relation(vocabulary, config.constrain and structure != "authors-dag")

        def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> RewardMachine:
            return walk.draw_machine(key, mask, how, constraints)

        return sample, how.size

    return make


def _hierarchical(config: TaskConfig, vocabulary: Vocabulary) -> tuple[SampleFn, HierarchySize]:
    nodes = config.machines * config.states
    require(nodes <= MAX_NODES, "machines x states", nodes, f"at most {MAX_NODES}")
    how = nest.nesting(config.machines, walks(config, config.structure), vocabulary, config.constrain)

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Hierarchy:
        return nest.draw_hierarchy(key, mask, how)

    return sample, how.size


SAMPLERS: dict[str, Callable[[TaskConfig, Vocabulary], tuple[SampleFn, TaskSize | HierarchySize]]] = {
    "sequential": _sequential,
    "dag": _walked("dag"),
    "cyclic": _walked("cyclic"),
    "authors-dag": _walked("authors-dag"),
    "hierarchical": _hierarchical,
}
"""Name -> what makes, from settings and a vocabulary, the sampler and the sizes of its tasks."""


def minimal(size: TaskSize | HierarchySize) -> SampleFn:
    """Draws tasks of one transition, in arrays of some size."""
    flat = size if isinstance(size, TaskSize) else TaskSize(*size[1:4])

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Any:
        task = resize(draw_sequence(key, mask, 1, 1), flat)
        return task if isinstance(size, TaskSize) else lone(task, size)

    return sample


def formalism(
    config: TaskConfig,
    vocabulary: Vocabulary,
    gamma: float = 1.0,
    mask: np.ndarray | None = None,
    smallest: bool = False,
) -> tuple[Any, TaskSize | HierarchySize]:
    """The formalism that the settings ask for, drawing and editing tasks with their rewards, and their sizes.

    `gamma` is the student's discount; only shaped rewards depend on it. `mask` says which propositions edits may bring
    in, by default all. With `smallest`, tasks of one transition are drawn; edits may make them larger.
    """
    draw_task, size = SAMPLERS[config.sampler](config, vocabulary)
    draw_task = minimal(size) if smallest else draw_task
    reward = REWARDS[config.reward]

    def sample(key: Key[Array, ""], mask: Bool[Array, "props"]) -> Any:
        return reward(draw_task(key, mask))

    allowed = np.ones(len(vocabulary.names), bool) if mask is None else mask
    edits = task_edits(vocabulary, allowed, reward, size)
    kind = Hierarchies if isinstance(size, HierarchySize) else RewardMachines
    members = kind(sample, edits, *cuts(reward, size))
    return (Shaped(members, gamma) if config.reward == "shaped" else members), size
