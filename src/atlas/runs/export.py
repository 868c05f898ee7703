"""A policy as one file that needs neither JAX nor ATLAS to be played: weights, settings and vocabulary.

It is an npz of arrays by name with a JSON header (`runs/store.py`); `docs/export.md` says what is in it, and
`examples/numpy_player.py` plays it with NumPy alone.
"""

from pathlib import Path
from typing import Final

import jax
import numpy as np

from atlas.domains import domain_of
from atlas.runs import store
from atlas.runs.folder import called
from atlas.runs.policy import Policy
from atlas.settings import to_plain
from atlas.student import encode

POLICY: Final = store.Format("atlas policy", 1, "file of an exported policy")
MOST_NODES: Final = 128
"""Nodes of a task's graph, at most: they are numbered by signed bytes."""


def export(policy: Policy, path: Path | str) -> int:
    """Write a policy with all that has to be known to play it; returns the number of its parameters."""
    config, student = policy.config, policy.student
    weights = {_named(key): array for key, array in store.to_arrays(policy.params).items()}
    arrays = weights | {"features": np.asarray(student.features, np.float32)}
    if config.student.network.task == "graph":
        # The random features of nodes, as `Policy.act` has them without a key; of a smaller task they are the first.
        key_noise, _ = jax.random.split(jax.random.key(0))
        noise = encode.noise(jax.random.split(key_noise, 1)[0], MOST_NODES, config.student.network)
        arrays["noise"] = np.asarray(noise)
    domain = domain_of(config.domain)
    header = {
        "policy": called(policy.run),
        "iteration": policy.iteration,
        "steps": policy.steps,
        "domain": config.domain.name,
        "actions": list(domain.actions),
        "view_shape": [student.cells.rows, student.cells.cols],
        "view_fields": list(student.cells.fields),
        "propositions": list(domain.vocabulary.names),
        "settings": to_plain(config),
    }
    store.write(path, POLICY, arrays, header)
    return sum(array.size for array in weights.values())


def _named(key: str) -> str:
    """`.view.layers[0].kernel` as `view.layers.0.kernel`."""
    return key.lstrip(".").replace("[", ".").replace("]", "")
