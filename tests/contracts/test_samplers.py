"""Laws of every sampler of tasks, whatever propositions it may use."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.config import TaskConfig
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.check import check
from atlas.tasks.hrm import Hierarchy
from atlas.tasks.paths import FAR, count_paths
from atlas.tasks.rm import UNUSED, RewardMachine
from atlas.tasks.sample import SAMPLERS, formalism

BATCH = 512
CHECKED = 40
CONSTRAINED = ("dag", "cyclic", "hierarchical")
MASKS = {
    "all": list(VOCABULARY.names),
    "red": [name for name in VOCABULARY.names if "red" in name],
    "balls": ["front_ball", "front_ball_red", "carrying_ball_red", "carrying_ball"],
    "one": ["front_key_blue"],
    "none": [],
}


@functools.cache
def sampler(name):
    """The jitted sampler of a batch, and the sizes it promises."""
    made, size = formalism(TaskConfig(sampler=name), VOCABULARY)
    return jax.jit(jax.vmap(made.sample, (0, None))), size


def mask_of(which):
    mask = np.zeros(len(VOCABULARY.names), bool)
    mask[[VOCABULARY.ids[name] for name in MASKS[which]]] = True
    return jnp.asarray(mask)


@functools.cache
def drawn(name, which="all"):
    """A batch of tasks, as numpy arrays."""
    keys = jax.random.split(jax.random.key(len(which)), BATCH)
    return jax.tree.map(np.asarray, sampler(name)[0](keys, mask_of(which)))


def single(batch, i):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), batch)


@functools.cache
def paths(name, which):
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(count_paths))(drawn(name, which)))


every = pytest.mark.parametrize("name", SAMPLERS)
mask = pytest.mark.parametrize("which", MASKS)


@every
def test_tasks_have_the_promised_size(name):
    task = single(drawn(name), 0)
    assert task.size == sampler(name)[1]
    assert isinstance(task, Hierarchy if name == "hierarchical" else RewardMachine)


@every
@mask
def test_acceptance_is_reachable(name, which):
    assert (paths(name, which).shortest < FAR).all()
    assert (paths(name, which).shortest >= 1).all()


@every
@pytest.mark.parametrize("which", [w for w in MASKS if w != "none"])
def test_only_allowed_propositions_are_used(name, which):
    guard = drawn(name, which).guard
    assert np.asarray(mask_of(which))[np.abs(guard[guard != 0]) - 1].all()


@every
@mask
def test_every_state_leads_to_acceptance(name, which):
    batch = drawn(name, which)
    outcome, target = batch.outcome, batch.target
    left = (target != UNUSED).any(axis=-1)
    entered = np.zeros_like(left)
    for index in zip(*np.nonzero(target != UNUSED), strict=True):
        entered[(*index[:-2], target[index])] = True
    entered[..., 0] |= left[..., 0]
    assert (entered == (left | (outcome != 0))).all(), "states are entered and left, or terminal, or unused"


@every
def test_rewards_are_sparse(name):
    batch = drawn(name)
    reward = batch.reward[:, 0] if name == "hierarchical" else batch.reward
    target = batch.target[:, 0] if name == "hierarchical" else batch.target
    outcome = batch.outcome[:, 0] if name == "hierarchical" else batch.outcome
    ends = np.take_along_axis(outcome[:, :, None], np.maximum(target, 0).astype(int), axis=1) == 1
    assert (reward == (ends & (target != UNUSED))).all()
    assert batch.reward.sum() == reward.sum()


@every
@pytest.mark.parametrize("which", ["all", "red", "balls", "one"])
def test_tasks_are_sound(name, which):
    for i in range(CHECKED):
        findings = check(single(drawn(name, which), i), VOCABULARY)
        errors = [f for f in findings if f.level == "error"]
        assert not [f for f in errors if "deterministic" in f.sentence], "guards exclude each other by construction"
        if name in CONSTRAINED:
            assert findings == [], "no label is contradictory or tautological"


@every
def test_one_key_one_task(name):
    run, _ = sampler(name)
    keys = jax.random.split(jax.random.key(99), BATCH)
    again = run(keys, mask_of("all"))
    assert all((a == b).all() for a, b in zip(*map(jax.tree.leaves, (run(keys, mask_of("all")), again)), strict=True))
    assert (np.asarray(again.guard) != drawn(name).guard).any()
