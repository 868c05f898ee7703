"""Programs that are kept between processes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from atlas import programs
from atlas.programs import Program, load_or_lower


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings: Any = jax.config
    names = [f"jax_{name}" for name in ("compilation_cache_dir", "persistent_cache_min_compile_time_secs")]
    names.append("jax_persistent_cache_min_entry_size_bytes")
    before = {name: getattr(settings, name) for name in names}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(programs, "_kept", False)
    settings.update("jax_compilation_cache_dir", None)
    reset_cache()
    programs.keep_programs()
    yield
    for name, value in before.items():
        settings.update(name, value)
    reset_cache()


def sorted_prefix() -> Callable[..., Any]:
    return lambda x, k: (jnp.sort(x)[k], jnp.cumsum(x).at[k].set(3)[k[::-1]])


@pytest.mark.usefixtures("kept")
def test_a_program_that_jax_has_in_its_own_cache_is_kept_whole() -> None:
    x, k = np.arange(2000.0)[::-1].copy(), np.arange(7)
    np.asarray(jax.jit(sorted_prefix())(x, k)[0])  # as a version of ATLAS before this one would have left it
    for _ in range(2):  # made, then read from its file
        jax.clear_caches()
        prefix, _ = Program("sorted prefix", sorted_prefix)(x, k)
        assert np.asarray(prefix).tolist() == list(range(7))


@pytest.mark.usefixtures("kept")
def test_a_compiled_step_is_found_again_without_tracing_it(tmp_path: Path) -> None:
    state = {"key": jax.random.key(3), "sum": jnp.float32(0.5)}

    def step(state: dict[str, Any], n: Any) -> tuple[dict[str, Any], Any]:
        draw = jax.random.uniform(state["key"])
        return {"key": jax.random.split(state["key"])[1], "sum": state["sum"] + n * draw}, draw

    def obtain(name: str, lower: Callable[[], Any]) -> Any:
        return load_or_lower(name, lower, jax.devices()[:1])()

    def never() -> Any:
        raise AssertionError("it is kept")

    def lower() -> Any:
        return jax.jit(step).lower(state, jnp.int32(0))

    made, drawn = obtain("step", lower)(state, np.int32(2))
    kept, again = obtain("step", never)(state, np.int32(2))
    assert (float(made["sum"]), float(drawn)) == (float(kept["sum"]), float(again))
    assert jnp.array_equal(jax.random.key_data(made["key"]), jax.random.key_data(kept["key"]))
    (file,) = (tmp_path / "atlas" / "programs").iterdir()
    file.chmod(0o666)  # others may have written it
    with pytest.raises(AssertionError, match="it is kept"):
        obtain("step", never)


TRAIN = """
import sys

from atlas.cli import main
from atlas.training import Compiled


def never(*_):
    raise AssertionError("it is kept")


if sys.argv[2] == "kept":
    Compiled._lower = never
sys.exit(main(["train", "tiny", "--folder", sys.argv[1], "--json"]))
"""


@pytest.mark.slow
def test_the_programs_of_a_run_are_found_again_without_tracing_them(tmp_path: Path) -> None:
    """As a user has them: in processes of their own, with the compiler's options as they are."""
    own = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}
    losses = []
    for name in ("made", "kept"):
        command = [sys.executable, "-c", TRAIN, str(tmp_path / name), name]
        subprocess.run(command, env=own | {"XDG_CACHE_HOME": str(tmp_path / "cache")}, check=True, capture_output=True)
        records = map(json.loads, (tmp_path / name / "metrics.jsonl").read_text().splitlines())
        losses.append({record["iteration"]: record.get("losses") for record in records}.popitem())
    assert losses[0] == losses[1]
    assert len(list((tmp_path / "cache" / "atlas" / "programs").iterdir())) >= 5


def test_programs_that_nobody_asks_for_are_removed(tmp_path: Path) -> None:
    old, used, new = (tmp_path / name for name in ("old", "used", "new"))
    for path in (old, used):
        programs._write(path, b"program")
    for path in (old, used):
        os.utime(path, (0, 0))
    assert programs._read(used) == b"program"
    programs._write(new, b"program")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "used"]
