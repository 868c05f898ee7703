"""Strict by default: no silent broadcasting, no deadlines (JAX compiles on the first call)."""

import hypothesis
import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_threefry_partitionable", True)

hypothesis.settings.register_profile(
    "atlas", deadline=None, suppress_health_check=list(hypothesis.HealthCheck), derandomize=True
)
hypothesis.settings.load_profile("atlas")
