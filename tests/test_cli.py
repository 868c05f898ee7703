"""The command as a user meets it: help, mistakes, exit codes."""

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml

from atlas import cli
from atlas.config import Config
from atlas.domains.minigrid.presets import PRESETS
from atlas.presets import presets
from atlas.settings import from_plain


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "atlas", *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_command_and_imports_no_jax() -> None:
    code = "import sys; from atlas.cli import main; main(['--help']); assert 'jax' not in sys.modules"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for command in cli.COMMANDS:
        assert f"\n  {command} " in result.stdout


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself_without_jax(command: str) -> None:
    code = f"""
import sys
from atlas.cli import main
try:
    main(["{command}", "--help"])
except SystemExit as stop:
    assert not stop.code
assert "jax" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage" in result.stdout.lower()


def test_config_and_presets_import_no_jax() -> None:
    code = "import sys, atlas, atlas.config, atlas.presets; assert 'jax' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_wrong_command_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sovle"]) == 2
    assert "there is no command 'sovle'; did you mean solve?" in capsys.readouterr().err


def test_a_wrong_preset_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["presets", "quikc"]) == 2
    assert capsys.readouterr().err == "atlas: there is no preset 'quikc'; did you mean quick or quick-dr?\n"


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (FileNotFoundError(2, "No such file or directory", "x.yaml"), "atlas: x.yaml: no such file or directory", 2),
        (PermissionError(13, "Permission denied", "x.yaml"), "atlas: x.yaml: permission denied", 2),
        (KeyboardInterrupt(), "atlas: stopped", 130),
        (ValueError("odd"), "atlas: internal error: ValueError: odd (add --debug for the traceback)", 1),
    ],
)
def test_errors_are_sentences(
    error: BaseException, words: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    assert cli.main(["presets"]) == code
    assert capsys.readouterr().err == words + "\n"
    if not isinstance(error, KeyboardInterrupt):
        with pytest.raises(type(error)):
            cli.main(["presets", "--debug"])


def test_presets_lists_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["presets"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(presets())
    assert cli.main(["presets", "quick"]) == 0
    assert from_plain(Config, yaml.safe_load(capsys.readouterr().out)) == PRESETS["quick"].config
    assert cli.main(["presets", "quick", "--json"]) == 0
    assert from_plain(Config, json.loads(capsys.readouterr().out)) == PRESETS["quick"].config


def test_module_and_version() -> None:
    result = run("--version")
    assert result.returncode == 0
    assert result.stdout.startswith("atlas 0.")


SLOW = """
import ctypes, sys, time
import atlas.cli
def slow(arguments):
    print("ready", flush=True)
    if arguments == ["compiling"]:
        ctypes.CDLL(None).sleep(20)  # as if it were the compiler: it knows nothing of Python
        ctypes.CDLL(None).sleep(20)  # a sleep ends early when a signal comes
    elif arguments == ["swallowing"]:
        for _ in range(20):
            try:
                time.sleep(1)
            except BaseException:
                pass
    time.sleep(20)
atlas.cli._run = lambda name, arguments: slow([name])
sys.argv = ["atlas", *sys.argv[1:]]
sys.exit(atlas.cli.main())
"""


@pytest.mark.parametrize("how", ["compiling", "swallowing", "sleeping"])
def test_an_interrupted_command_ends_within_seconds(how: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert time.monotonic() - started < 5
    assert process.returncode == 130
    assert told.strip() == "atlas: stopped"
