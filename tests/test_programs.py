"""Compiled programs that are kept between processes."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import jax
import numpy as np
from atlas import programs

def make():
    return lambda seed: jax.lax.sort(jax.random.bits(jax.random.key(seed), (8, 8))).sum(0) << 3

programs.keep_programs()
for code in ("before", "after", "after"):  # another version of the package; then its second start
    programs.code = lambda code=code: code
    jax.clear_caches()
    print(np.asarray(programs.Program("some", make)(np.uint32(3))).tolist())
print(len(list((programs.cache_folder() / "programs").iterdir())))
"""


def test_a_program_that_only_the_code_around_has_changed_is_kept_whole(tmp_path: Path, monkeypatch) -> None:
    """JAX remembers its executable, which can be run and not be written again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600)
    *results, files = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(results) == 3
    assert len(set(results)) == 1
    assert files == "2"
