"""Where compiled programs are kept."""

from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from atlas.runs.store import cache_folder, remember_compiled


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    made = SimpleNamespace(jax_compilation_cache_dir=None)
    made.update = lambda name, value: setattr(made, name, value)
    monkeypatch.setattr(jax, "config", made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return made


def test_programs_are_kept_in_the_users_cache(settings: SimpleNamespace, tmp_path: Path) -> None:
    remember_compiled()
    assert settings.jax_compilation_cache_dir == str(tmp_path / "atlas" / "compiled")


def test_what_the_user_arranged_stays(settings: SimpleNamespace) -> None:
    settings.jax_compilation_cache_dir = "elsewhere"
    remember_compiled()
    assert settings.jax_compilation_cache_dir == "elsewhere"


def test_without_a_variable_it_is_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "atlas"
