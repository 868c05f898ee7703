"""Laws of every level edit: the result obeys the rules, applicability is exact, the name is true."""

import functools

import jax
import numpy as np
import pytest

from atlas.domains.minigrid.edits import level_edits
from atlas.domains.minigrid.settings import MinigridConfig
from levels import varied_levels
from rules import free_form_rules, level_rules
from twins.level_edits import applies, explains

NUM = 384
CONFIGS = {
    "usual": MinigridConfig(),
    "narrow": MinigridConfig(rooms=(1, 2, 6, 9), colours=("red",), types=("ball",), door_states=("open",)),
}
EDITS = [(name, row) for name, config in CONFIGS.items() for row in range(len(level_edits(config)))]
every = pytest.mark.parametrize(
    ("which", "row"), EDITS, ids=[f"{name}-{level_edits(CONFIGS[name])[row].name}" for name, row in EDITS]
)


@functools.cache
def levels(which):
    return varied_levels(CONFIGS[which], NUM)


def at(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


@functools.cache
def applicable(which):
    """`bool[edits, levels]`: all at once, since compiling takes longer than computing."""
    edits = level_edits(CONFIGS[which])
    run = jax.jit(jax.vmap(lambda level: [edit.applicable(level) for edit in edits]))
    return np.array(run(levels(which)))


@functools.cache
def changed(which):
    """What each edit makes of each level, applicable or not."""
    edits = level_edits(CONFIGS[which])
    run = jax.jit(jax.vmap(lambda key, level: [edit.apply(key, level) for edit in edits]))
    return jax.device_get(run(jax.random.split(jax.random.key(5), NUM), levels(which)))


@every
def test_applicability_is_exact(which, row):
    name = level_edits(CONFIGS[which])[row].name
    expected = [applies(name, at(levels(which), i), CONFIGS[which]) for i in range(NUM)]
    assert applicable(which)[row].tolist() == expected
    if which == "usual":
        assert 0 < sum(expected) < NUM, "the levels put it to the test"


@every
def test_results_obey_the_rules_and_the_name_is_true(which, row):
    name = level_edits(CONFIGS[which])[row].name
    after, arguments = changed(which)[row]
    for i in np.flatnonzero(applicable(which)[row]):
        level = at(after, i)
        explains(name, at(levels(which), i), level, arguments[i], CONFIGS[which])
        if int(level.rooms):
            level_rules(level, CONFIGS[which])
        else:
            free_form_rules(level)
