"""The folder of a run: what lies where, who may write to it."""

import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Final

from atlas import plugins
from atlas.config import Config
from atlas.documents import parse_json, read_plain, read_text
from atlas.errors import AtlasError, listed, nearest
from atlas.runs.store import write_whole
from atlas.settings import Settings, dump, load, to_plain
from atlas.ued import absent
from atlas.words import command

LOCK: Final = "lock"

ZOO: Final = Path(__file__).parents[1] / "zoo"
"""The policies that come with ATLAS: small run folders inside the package, which may not be written to."""
IN_ZOO: Final = "zoo:"
"""The prefix of their names."""

SNAPSHOTS: Final = {"snapshots": ".npz", "policies": ".npz", "gallery": ".png"}
"""The folders that snapshots write to, and the suffixes of their files: problems, parameters, pictures."""


class RunError(AtlasError):
    """A folder that cannot be used as asked."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run. Hold it with `create` or `reopen`; reading needs no lock."""

    path: Path

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def latest_picture(self) -> Path:
        """The contact sheet of the last snapshot."""
        return self.path / "gallery" / "latest.png"

    @property
    def held_out_file(self) -> Path:
        return self.path / "held_out.npz"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    def summary(self) -> dict[str, Any]:
        """The result of the run, as it was written when it last stopped; empty if that cannot be read."""
        with suppress(OSError, ValueError, AtlasError):
            told = parse_json(read_text(self.summary_file))
            return told if isinstance(told, dict) else {}
        return {}

    @property
    def demonstrations_file(self) -> Path:
        """The plans that its student is shown, if it is shown any."""
        return self.path / "demonstrations.npz"

    @property
    def init_file(self) -> Path:
        """The weights that it began with, if it was given any."""
        return self.path / "init.npz"

    @property
    def sinks_file(self) -> Path:
        """The file that lists other sinks of the metrics: remembered for `atlas resume`."""
        return self.path / "sinks.json"

    @property
    def devices_file(self) -> Path:
        """How many devices shared the work when it last went on."""
        return self.path / "devices.json"

    def devices(self) -> int | None:
        """How many that were; None if it is not known."""
        with suppress(OSError, ValueError, KeyError, TypeError, OverflowError, AtlasError):
            devices = int(parse_json(read_text(self.devices_file))["devices"])
            return devices if devices > 0 else None
        return None

    @property
    def lineage_file(self) -> Path:
        """The problems of the curriculum and their ancestors."""
        return self.path / "lineage.npz"

    @property
    def changes_file(self) -> Path:
        """A line for each time it went on from an earlier checkpoint or with other settings."""
        return self.path / "changes.jsonl"

    @property
    def given_file(self) -> Path:
        """The teachers, scores, edits and domains that were passed to it as values, by name and where they were
        defined; a teacher with its plan."""
        return self.path / "given.json"

    def config(self) -> Config:
        """The settings it was started with. What was passed by value in another process is known by its name then."""
        if self.given_file.exists():
            self._know_given()
        return load(Config, self.config_file)

    def _know_given(self) -> None:
        try:
            given = parse_json(read_text(self.given_file))
            missing = [
                (kind, name, about)
                for kind, some in given.items()
                for name, about in some.items()
                if kind in plugins.KINDS and name not in plugins.names(kind)
            ]
            for kind, name, about in missing:
                word = plugins.KINDS[kind]
                how = f"atlas.resume({str(self.path)!r}, {'edits=[…]' if kind == 'edits' else f'{word}=…'})"
                sentence = (
                    f"the {word} '{name}' was passed to {self.path} as a value ({about['defined']}): "
                    f"pass it again, `{how}`, or install it as a plug-in (docs/plugins.md)"
                )
                if kind == "domains":
                    raise RunError(sentence)
                value: Any = plugins.Absent(sentence)
                if kind == "teachers":
                    value = absent(name, read_plain(self.config_file)["teacher"], about["plan"], sentence)
                plugins.give(kind, name, value, {})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{self.given_file} is damaged ({error})") from None

    def note_given(self, config: Config, given: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down what was passed by value, by kind and name."""
        content: dict[str, Any] = {
            kind: {name: {"defined": plugins.defined_at(value)} for name, value in some.items()}
            for kind, some in given.items()
        }
        for about in content.get("teachers", {}).values():
            plan = {field.name: getattr(config.plan, field.name) for field in fields(config.plan)}
            about["plan"] = {k: to_plain(v) if isinstance(v, Settings) else v for k, v in plan.items()}
        write_whole(self.given_file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def is_run(self) -> bool:
        return self.config_file.is_file()

    def snapshot(self, kind: str, iteration: int) -> Path:
        """A file of a snapshot, of one of the kinds `SNAPSHOTS`; names sort by time."""
        return self.path / kind / f"{iteration:09d}{SNAPSHOTS[kind]}"

    def has_history(self) -> bool:
        """Whether it has begun: then it has a checkpoint, or has lost all of them."""
        begun = self.metrics_file.exists() and self.metrics_file.stat().st_size > 0
        return begun or any(_after(self.path / name, -1) for name in ("damaged", *SNAPSHOTS))

    def iterations(self, kind: str) -> list[int]:
        """At which iterations there is a file of a kind, in ascending order."""
        return sorted(int(path.stem) for path in (self.path / kind).glob("*") if path.stem.isdigit())

    def drop_snapshots(self, iteration: int) -> None:
        """On resume, snapshots after `iteration` are removed."""
        for kind in SNAPSHOTS:
            for path in _after(self.path / kind, iteration):
                path.unlink()

    def set_aside(self, iteration: int | None) -> Path:
        """Move what came after `iteration` (None: everything) to a folder of its own, with a copy of the metrics."""
        numbers = (self.path / "aside" / str(number) for number in itertools.count(1))
        target = next(path for path in numbers if not path.exists())
        target.mkdir(parents=True)
        later = [self.summary_file, self.lineage_file]  # the numbers of later problems will be given to others
        for kind in ("checkpoints", *SNAPSHOTS):
            later += _after(self.path / kind, -1 if iteration is None else iteration)
        later += [self.metrics_file, self.path / "damaged"] if iteration is None else []
        for path in (self.config_file, self.metrics_file):
            if path.exists():
                shutil.copy2(path, target / path.name)
        for path in later:
            if path.exists():
                (target / path.relative_to(self.path)).parent.mkdir(exist_ok=True)
                path.replace(target / path.relative_to(self.path))
        return target

    def note_change(self, **what: Any) -> None:
        """Add a line to the changes."""
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **what})
        with self.changes_file.open("a") as file:
            file.write(line + "\n")


def _after(folder: Path, iteration: int) -> list[Path]:
    """The entries of a folder that are named by an iteration after this one."""
    named = [path for path in folder.glob("*") if path.stem.isdigit()]
    return [path for path in named if int(path.stem) > iteration]


class Lock:
    """Held as long as the process lives; the system releases it even after `kill -9`."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            # A file of our own, not one that a link leads to, and no pipe that would wait for a reader.
            handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            reason = (error.strerror or "it cannot be used").lower()
            if error.errno == errno.ELOOP:
                raise RunError(f"{path / LOCK} is a link, and a run's lock must be a file of its own") from None
            raise RunError(f"cannot write to {path}: {reason}") from error
        content = os.read(handle, 100) if stat.S_ISREG(os.fstat(handle).st_mode) else b"not a file"
        if not re.fullmatch(rb"(process \d+)?\s*", content):
            os.close(handle)
            raise RunError(f"{path / LOCK} was not written by a run: move it away, or choose another folder")
        self.file: IO[str] = os.fdopen(handle, "r+")
        if not _flock(handle):
            self.file.close()
            raise RunError(f"{path} is in use by another process{f' ({content.decode().strip()})' if content else ''}")
        self.file.seek(0)
        self.file.truncate()
        self.file.write(f"process {os.getpid()}")
        self.file.flush()

    def release(self) -> None:
        self.file.truncate(0)
        self.file.close()


def _flock(handle: int) -> bool:
    """Take a lock, unless another process keeps it. One that only asks whether it is free holds it for a moment."""
    for _ in range(10):
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


def in_use(path: Path) -> bool:
    """Whether a process holds the folder of a run."""
    try:
        handle = os.open(path / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def create(path: Path, config: Config, overwrite: bool = False) -> tuple[RunFolder, Lock]:
    """A folder for a new run. One that holds a run is refused unless it may be overwritten, one that holds something
    else under the names that a run uses is refused in any case."""
    folder = RunFolder(path)
    foreign = [name for name in OWN if os.path.lexists(path / name)]
    if folder.is_run():
        try:
            folder.config()
            if missing := [key for key in to_plain(Config()) if key not in read_plain(folder.config_file)]:
                raise AtlasError(f"{folder.config_file}: a run's has all settings, and {missing[0]} is missing")
        except AtlasError as error:
            told = f"{path} holds something else than a run of ATLAS ({error}): choose another --folder"
            raise RunError(told) from None
        if not overwrite:
            again = command("resume", path)
            raise RunError(f"{path} already holds a run: `{again}` continues it, --overwrite replaces it")
    elif foreign:
        raise RunError(
            f"{path} holds {listed(foreign, 'and')}, which a run would write, but no run of ATLAS: choose another "
            "--folder, or move them away"
        )
    lock = Lock(path)
    try:
        for name, made in OWN.items():
            _remove(path / name, made)
        write_whole(folder.config_file, dump(config))
        folder.snapshots.mkdir(exist_ok=True)
    except BaseException:
        lock.release()
        raise
    return folder, lock


def _remove(path: Path, made: str) -> None:
    """Remove what a run made: a file, or of a folder the entries whose names match."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for entry in path.iterdir():
        if re.fullmatch(made, entry.name):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    with suppress(OSError):  # it holds something else, too
        path.rmdir()


def unused(path: Path) -> Path:
    """The path itself or, if there is something already, the first free one of `path-2`, `path-3` and so on."""

    def free(candidate: Path) -> bool:
        return not candidate.exists() or (candidate.is_dir() and {p.name for p in candidate.iterdir()} <= {LOCK})

    others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], others) if free(candidate))


def zoo_names() -> list[str]:
    """The policies that come with ATLAS."""
    return sorted(path.name for path in ZOO.glob("[!.]*") if RunFolder(path).is_run())


def is_in_zoo(given: Path | str) -> bool:
    """Whether a policy is named as one of the zoo: `zoo:quick`."""
    return str(given).startswith(IN_ZOO)


def located(given: Path | str) -> Path:
    """The path of a run, a checkpoint or a policy: `zoo:NAME` inside the package, all else where the path says."""
    if not is_in_zoo(given):
        return Path(given)
    name, known = str(given).removeprefix(IN_ZOO), zoo_names()
    if name not in known:
        there = f"there are {listed(known, 'and')}" if known else "there are none in this installation"
        raise RunError(f"'{name}' is no policy of the zoo; {there}")
    return ZOO / name


def called(path: Path) -> str:
    """The name for people of a run or something in it: `zoo:NAME`, or its path."""
    inside = path.absolute()
    return f"{IN_ZOO}{inside.relative_to(ZOO).as_posix()}" if ZOO in inside.parents else str(path)


def reopen(path: Path) -> tuple[RunFolder, Lock]:
    """The folder of a run to go on with."""
    if is_in_zoo(path):
        located(path)
        again = command("train", "PRESET", "--init", path)
        raise RunError(f"{path} is a policy without a run to go on with: `{again}` begins one with its weights")
    return find(path), Lock(path)


def find(path: Path) -> RunFolder:
    """A folder that holds a run, to read from; by path or as `zoo:NAME`."""
    folder = RunFolder(located(path))
    if not folder.is_run():
        siblings = [str(p) for p in path.parent.glob("*") if RunFolder(p).is_run()] if path.parent.is_dir() else []
        hint = nearest(str(path), siblings) or (f"; there are {', '.join(sorted(siblings)[:5])}" if siblings else "")
        raise RunError(f"{path} holds no run{hint}")
    return folder


_NUMBERED: Final = r"\d+(-again)*(\.orbax-checkpoint-tmp.*)?"
OWN: Final = {
    "metrics.jsonl": "", "summary.json": "", "changes.jsonl": "", "sinks.json": "", "devices.json": "",
    "demonstrations.npz": "", "demonstrations.npz.parts": r"\d+\.npz",
    "given.json": "", "held_out.npz": "", "init.npz": "", "lineage.npz": "",
    "checkpoints": _NUMBERED, "damaged": _NUMBERED, "aside": r"\d+", "snapshots": r"\d+\.npz",
    "policies": r"\d+\.npz", "gallery": r"(\d+|latest)\.png", "evaluations": r".*\.json",
    "tensorboard": r"events\.out\..*", "wandb": r".*", "config.yaml": "",
}  # fmt: skip
"""Files of a run, and all that `--overwrite` removes: files, and for folders a pattern of the names in them. The
config comes last: as long as it is there, the folder is a run."""
