"""Laws of every sampler of tasks, whatever propositions it may use."""

import jax
import numpy as np
import pytest

from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.check import check
from atlas.tasks.machine import UNUSED
from atlas.tasks.packed import unpack
from atlas.tasks.rewards import FAR
from atlas.tasks.sample import SAMPLERS
from twins.drawn import MASKS, drawn, mask_of, paths, sampler, single

CHECKED = 40
CONSTRAINED = ("dag", "cyclic", "hierarchical")

every = pytest.mark.parametrize("name", SAMPLERS)
mask = pytest.mark.parametrize("which", MASKS)


@every
def test_tasks_have_the_promised_size(name):
    task = single(drawn(name), 0)
    assert task.size == sampler(name)[1]
    assert (task.call is None) == (name != "hierarchical")


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
    entered = (target[..., None] == np.arange(left.shape[-1])).any(axis=(-3, -2))
    entered[..., 0] |= left[..., 0]
    assert (entered == (left | (outcome != 0))).all(), "states are entered and left, or terminal, or unused"


@every
def test_rewards_are_sparse(name):
    batch = drawn(name)
    reward, target, outcome = batch.reward[:, 0], batch.target[:, 0], batch.outcome[:, 0]
    ends = np.take_along_axis(outcome[:, :, None], np.maximum(target, 0).astype(int), axis=1) == 1
    assert (reward == (ends & (target != UNUSED))).all()
    assert batch.reward.sum() == reward.sum()


@every
@pytest.mark.parametrize("which", ["all", "red", "balls", "one"])
def test_tasks_are_sound(name, which):
    for i in range(CHECKED):
        findings = check(unpack(single(drawn(name, which), i)), VOCABULARY)
        errors = [f for f in findings if f.level == "error"]
        assert not [f for f in errors if "deterministic" in f.sentence], "guards exclude each other by construction"
        if name in CONSTRAINED:
            assert findings == [], "no label is contradictory or tautological"


@every
def test_one_key_one_task(name):
    once, again = (
        drawn(name),
        sampler(name)[0](jax.random.split(jax.random.key(0), len(drawn(name).guard)), mask_of("all")),
    )
    assert all((a == b).all() for a, b in zip(*map(jax.tree.leaves, (once, again)), strict=True))
    assert (once.guard != drawn(name, seed=1).guard).any()
