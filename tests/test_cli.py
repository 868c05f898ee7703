"""The command as a user meets it: help, mistakes, exit codes."""

import importlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest
import tyro
import yaml

from atlas import cli
from atlas.commands import hints
from atlas.commands.completion import SHELLS, script
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


def test_without_arguments_it_is_a_tour(capsys: pytest.CaptureFixture[str]) -> None:
    """Five commands, all of which parse, none of which needs a run that is not there."""
    assert cli.main([]) == 0
    told = capsys.readouterr().out
    lines = [
        line.split("atlas ", 1)[1] for line in told.splitlines() if line.strip()[:2] in {f"{n}." for n in range(9)}
    ]
    assert len(lines) == 5
    for line in lines:
        name, *rest = shlex.split(line)
        assert name in cli.COMMANDS
        module = importlib.import_module(f"atlas.commands.{cli.COMMANDS[name][0]}")
        if name != "train":
            tyro.cli(getattr(module, f"{name.capitalize()}Args"), args=rest)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_result_says_what_to_try_next(name: str) -> None:
    """With a subject and without; the command it names exists."""
    if name == "train":
        return  # it ends with lines of its own
    for arguments in (["it is"], []):
        line = hints.after(name, arguments)
        words = shlex.split(line.removeprefix("try next: "))
        assert next(word for word in words if word in cli.COMMANDS)
        assert hints.FIRST_ARGUMENT not in words
    assert hints.after(name, ["it", "--json"]) == ""


def test_hints_are_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["presets"]) == 0
    assert "try next" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["presets", "quick"]) == 0
    assert capsys.readouterr().out.endswith("atlas train quick\n")
    assert cli.main(["presets", "--json"]) == 0
    assert "try next" not in capsys.readouterr().out


def test_info_tells_what_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "atlas" / "programs").mkdir(parents=True)
    (tmp_path / "atlas" / "programs" / "one").write_bytes(bytes(1234))
    assert cli.main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["packages"]["jax"] == jax.__version__
    assert told["cache"] == {
        "path": str(tmp_path / "atlas"), "bytes": 1234, "kept": {"kept programs": {"files": 1, "bytes": 1234}}
    }  # fmt: skip
    assert told["extras"]["gym"] is (importlib.util.find_spec("gymnasium") is not None)
    assert told["extras"]["cuda12"] is False or "cuda" in str(told["devices"])
    assert len(told["devices"]) == jax.device_count()
    assert told["machine"]["cores"] >= 1
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    for word in ("jax", "devices", "memory", "kept programs 1.23 KB in 1 file", "zoo:quick", "plug-ins"):
        assert word in out


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    paths = {shell: folder / f"atlas.{shell}" for shell in SHELLS}
    for shell, path in paths.items():
        path.write_text(script(shell))
    return paths


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts_parse_and_know_all_commands(shell: str, scripts: dict[str, Path]) -> None:
    text = scripts[shell].read_text()
    for name in cli.COMMANDS:
        assert name in text
    assert "--run.time-limit" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n", str(scripts[shell])], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


COMPLETE = """
source "$1"; shift
COMP_WORDS=(atlas "$@"); COMP_CWORD=$#
_tyro_atlas
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [(["wat"], ["watch"]), (["watch", "--ta"], ["--task"]), (["train", "--run.ti"], ["--run.time-limit"])],
)
def test_bash_completes(words: list[str], found: list[str], scripts: dict[str, Path]) -> None:
    command = ["bash", "-c", COMPLETE, "bash", str(scripts["bash"]), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == found


@pytest.mark.parametrize("words", [["tcsh"], [], ["bash", "zsh"]])
def test_other_shells_get_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--print-completion", *words]) == 2
    assert "bash, zsh" in capsys.readouterr().err


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


@pytest.mark.parametrize(("before", "level"), [(None, "3"), ("1", "3"), ("0", "0")])
def test_the_compiler_raises_no_alarm_unless_it_is_asked_to(
    before: str | None, level: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 is JAX's own default, which what a notebook starts inherits."""
    monkeypatch.setenv(cli.COMPILER_LOG, before) if before else monkeypatch.delenv(cli.COMPILER_LOG, raising=False)
    assert cli.main(["presets"]) == 0
    assert os.environ[cli.COMPILER_LOG] == level


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
import ctypes, signal, sys, time
import atlas.cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have programs in the background ignore it
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
