"""Programs that are kept between processes."""

import subprocess
import sys

TWICE = """
import sys
import numpy as np
import jax.numpy as jnp
import atlas.programs
atlas.programs.code = lambda: sys.argv[1]
atlas.programs.keep_programs()
print(float(np.asarray(atlas.programs.Program("p", lambda: lambda x: jnp.sort(jnp.sin(x))[::2].sum())(np.arange(9.0)))))
"""


def test_a_program_can_be_kept_again_after_the_code_has_changed(tmp_path, monkeypatch):
    """JAX finds the executable of the older code in its own cache, and that one could not be written again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told = [
        subprocess.run([sys.executable, "-c", TWICE, code], capture_output=True, text=True, check=True).stdout
        for code in ("old", "new", "new")
    ]
    assert len(set(told)) == 1
    assert len(list((tmp_path / "atlas" / "programs").iterdir())) == 2
