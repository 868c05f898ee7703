"""The examples do what they say: agents learn, a package beside ours is found, trained."""

import json
import os
import runpy
import site
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def test_the_example_fits_on_a_page():
    assert len((EXAMPLES / "ppo.py").read_text().splitlines()) < 150


@pytest.mark.slow
def test_ppo_learns():
    solved = runpy.run_path(str(EXAMPLES / "ppo.py"))["main"](updates=60)
    assert solved[-5:].mean() > solved[:5].mean() + 0.4, solved


@pytest.mark.slow
def test_ppo_learns_through_gymnasium():
    solved = runpy.run_path(str(EXAMPLES / "ppo_gymnasium.py"))["main"](updates=60)
    assert solved[-10:].mean() > solved[:10].mean() + 0.2, solved


@pytest.mark.slow
def test_a_package_beside_atlas_in_a_fresh_environment(tmp_path):
    """Both are installed as a user would; what they need beside that is taken from here."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    packages = subprocess.check_output(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    here = [path for path in site.getsitepackages() if Path(path).is_dir()]
    # Behind the packages of the environment itself, so that ours is the one that is installed there.
    (Path(packages) / "zz_here.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in here))
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    plugin = EXAMPLES / "atlas_example_plugin"
    run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-installed", str(ROOT), str(plugin))
    assert packages in run(str(python), "-c", "import atlas; print(atlas.__file__)")
    atlas = str(home / "bin" / "atlas")
    told = " ".join(run(atlas, "train", "--help").split())
    assert "echo, rehearsal." in told
    assert "constant, surprise." in told
    assert "rehearsal-tiny" in run(atlas, "presets")
    result = json.loads(run(atlas, "train", "rehearsal-tiny", "--folder", "run", "--run.total-steps", "1024", "--json"))
    assert result["steps"] >= 1024
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert records[-1]["trained"] > 0
    edits = ["--teacher.score", "surprise", "--teacher.edits.more", "about_turn", "--run.total-steps", "512"]
    run(atlas, "train", "tiny", "--folder", "other", "--json", *edits)
    run(str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(plugin / "tests"))
    code = "import gymnasium; env = gymnasium.make('atlas.gym:atlas/Minigrid-v0', preset='tiny')"
    assert run(str(python), "-c", f"{code}; print(env.reset(seed=0)[0]['mission'])").strip()
