"""Members from other packages, found as installed ones are: by a folder with metadata on the path."""

import subprocess
import sys
import textwrap
import warnings

import pytest

from atlas import plugins
from atlas.cli import main
from atlas.config import Config
from atlas.domains import DOMAINS
from atlas.presets import preset, presets
from atlas.problems import EDITS
from atlas.settings import ConfigError, from_plain
from atlas.ued import TEACHERS
from atlas.ued.scores import SCORES, constant

CODE = """
from dataclasses import dataclass, replace
from typing import Literal
from atlas.presets import Preset, config_of
from atlas.ued import DRConfig, Row

@dataclass(frozen=True, kw_only=True)
class OtherConfig(DRConfig):
    '''Domain randomisation under another name.'''

    name: Literal["other"] = "other"
    '''Which teacher.'''

ROW = Row(OtherConfig, "atlas.ued.dr:DR")
PRESET = Preset(replace(config_of("tiny"), teacher=OtherConfig(pool=3)), "from elsewhere")

def steps(played, record):
    return played.done.sum(0) * 1.0
"""
ENTRIES = """
[atlas.teachers]
other = elsewhere:ROW
dr = elsewhere:ROW
broken = elsewhere_broken:ROW
odd = elsewhere:PRESET
quits = elsewhere_quits:ROW

[atlas.scores]
steps = elsewhere:steps

[atlas.presets]
elsewhere = elsewhere:PRESET

[atlas.domains]
nowhere = elsewhere:missing
"""


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A package called elsewhere, with some things that work and some that do not."""
    (tmp_path / "elsewhere.py").write_text(CODE)
    (tmp_path / "elsewhere_broken.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "elsewhere_quits.py").write_text("raise SystemExit(3)\n")
    about = tmp_path / "elsewhere-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_given", {kind: {} for kind in plugins.KINDS})  # other tests may have passed some
    plugins.refresh()
    yield tmp_path
    monkeypatch.undo()
    sys.modules.pop("elsewhere", None)
    plugins.refresh()


@pytest.mark.filterwarnings("ignore::atlas.plugins.PluginWarning")
def test_they_are_in_the_tables(elsewhere):
    assert list(TEACHERS)[:3] == ["dr", "plr", "accel"]
    assert list(TEACHERS)[-1] == "other"
    assert TEACHERS["dr"].settings.__name__ == "DRConfig", "our own names cannot be taken"
    assert SCORES["steps"].__name__ == "steps"
    assert "elsewhere" in presets()
    assert preset("elsewhere").config.teacher.pool == 3
    assert list(DOMAINS.own) == [name for name in DOMAINS if name in DOMAINS.own]
    assert "nowhere" not in DOMAINS
    assert list(EDITS) == []


@pytest.mark.filterwarnings("ignore::atlas.plugins.PluginWarning")
def test_settings_name_them(elsewhere):
    assert from_plain(Config, {"teacher": {"name": "other", "pool": 2}}).teacher.pool == 2
    assert from_plain(Config, {"teacher": {"name": "plr", "score": "steps"}}).plan.score == "steps"
    with pytest.raises(ConfigError, match=r"teacher.score = stpes is not allowed: one of maxmc.*constant, steps"):
        from_plain(Config, {"teacher": {"name": "plr", "score": "stpes"}})
    with pytest.raises(ConfigError, match=r"teacher\.edits\.more = turn is not allowed"):
        from_plain(Config, {"teacher": {"name": "accel", "edits": {"more": ["turn"]}}})


def test_what_cannot_be_imported_is_named_and_left_out(elsewhere):
    with pytest.warns(plugins.PluginWarning) as caught:
        assert not {"broken", "odd", "quits"} & {*TEACHERS}
    told = [str(one.message) for one in caught]
    assert told[0].startswith(
        "the teacher 'broken' of the package elsewhere is left out: ModuleNotFoundError: No module named"
    )
    assert "a Row (atlas.ued) of settings and teacher is needed, and Preset was found" in told[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "broken" not in TEACHERS, "and that is said once"


def test_help_lists_them_and_a_broken_one_stops_nothing(elsewhere, capsys):
    with pytest.raises(SystemExit):
        main(["train", "elsewhere", "--help"])
    told = capsys.readouterr()
    words = " ".join(told.out.split())
    for told_of, names in (("Teachers (--teacher.name)", TEACHERS), ("Scores (--teacher.score)", SCORES)):
        assert f"{told_of}: {', '.join(names)}" in words
    assert "--teacher.pool" in told.out
    assert "atlas: note: the teacher 'broken' of the package elsewhere is left out" in told.err
    assert main(["presets", "--json"]) == 0
    assert '"elsewhere": "from elsewhere"' in capsys.readouterr().out


def test_values_are_members_too():
    assert "mine" not in SCORES
    plugins.give("scores", "mine", constant, SCORES.own)
    assert SCORES["mine"] is constant
    assert list(SCORES)[-1] == "mine"
    with pytest.raises(plugins.AtlasError, match="'maxmc' is the name of a score of ATLAS: call yours something else"):
        plugins.give("scores", "maxmc", constant, SCORES.own)
    del plugins._given["scores"]["mine"]


def test_two_packages_may_not_share_a_name(elsewhere):
    other = elsewhere / "another-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[atlas.scores]\nsteps = elsewhere:steps\n")
    plugins.refresh()
    with pytest.warns(plugins.PluginWarning, match="brings one of the same name"):
        assert "steps" in SCORES


@pytest.mark.parametrize("command", [["--help"], ["task", "pick up a red ball"], ["task", "--help"]])
def test_other_packages_are_not_looked_at_needlessly(command):
    code = f"""
    import sys
    from atlas import cli, plugins
    try:
        cli.main({command})
    except SystemExit:
        pass
    assert plugins._entry_points.cache_info().currsize == 0
    assert "jax" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
