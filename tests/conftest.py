"""Strict by default: shapes are checked, no silent broadcasting, no deadlines (JAX compiles on the first call).

Shapes are checked at run time in every module that declares one. The others (the search of the prover, the English
grammar, drawings) would be several times slower for it: mypy checks their types, and so does `make test-slow`.

On two cores compilation is most of a test run: the compiler is told not to try hard (a third of the time in all), and
what it made is kept and shared between workers and runs.
"""

import os
from pathlib import Path

import hypothesis
import jax
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parent.parent / "src"
SHAPED = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in (SOURCE / "atlas").rglob("*.py")
    if path.name != "__init__.py" and "from jaxtyping import" in path.read_text()
]
install_import_hook(SHAPED, "typecheck.check")

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false",
)
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parent.parent / ".pytest_cache" / "compiled"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_threefry_partitionable", True)

hypothesis.settings.register_profile(
    "atlas", deadline=None, suppress_health_check=list(hypothesis.HealthCheck), derandomize=True
)
hypothesis.settings.load_profile("atlas")
