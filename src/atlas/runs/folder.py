"""The folder of a run: what lies where, who may write to it."""

import fcntl
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from atlas.config import Config
from atlas.errors import AtlasError, nearest
from atlas.settings import dump, load

SNAPSHOTS: Final = {"snapshots": ".npz", "policies": ".npz", "gallery": ".png"}
"""The folders that snapshots write to, and the suffixes of their files: problems, parameters, pictures."""


class RunError(AtlasError):
    """A folder that cannot be used as asked."""


@dataclass(frozen=True)
class RunFolder:
    """Where a run lives. Hold it with `create` or `reopen`; reading needs no lock."""

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

    def config(self) -> Config:
        """The settings it was started with."""
        return load(Config, self.config_file)

    def is_run(self) -> bool:
        return self.config_file.is_file()

    def snapshot(self, kind: str, iteration: int) -> Path:
        """A file of a snapshot, of one of the kinds `SNAPSHOTS`; names sort by time."""
        return self.path / kind / f"{iteration:09d}{SNAPSHOTS[kind]}"

    def iterations(self, kind: str) -> list[int]:
        """At which iterations there is a file of a kind, in ascending order."""
        return sorted(int(path.stem) for path in (self.path / kind).glob("*") if path.stem.isdigit())

    def drop_snapshots(self, iteration: int) -> None:
        """On resume, snapshots after `iteration` are removed."""
        for kind in SNAPSHOTS:
            for number in self.iterations(kind):
                if number > iteration:
                    self.snapshot(kind, number).unlink(missing_ok=True)


class Lock:
    """Held as long as the process lives; the system releases it even after `kill -9`."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.file: IO[str] = open(path / "lock", "a+")  # noqa: SIM115 - it stays open on purpose
        except OSError as error:
            raise RunError(f"cannot write to {path}: {(error.strerror or 'it cannot be used').lower()}") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.file.seek(0)
            holder = self.file.read().strip()
            self.file.close()
            raise RunError(f"{path} is in use by another process{f' ({holder})' if holder else ''}") from None
        self.file.truncate(0)
        self.file.write(f"process {os.getpid()}")
        self.file.flush()

    def release(self) -> None:
        self.file.truncate(0)
        self.file.close()


def create(path: Path, config: Config, overwrite: bool = False) -> tuple[RunFolder, Lock]:
    """A folder for a new run. One that holds a run already is refused unless it may be overwritten."""
    folder, lock = RunFolder(path), Lock(path)
    if folder.is_run() and not overwrite:
        lock.release()
        raise RunError(f"{path} already holds a run: `atlas resume {path}` continues it, --overwrite replaces it")
    for name in OWN:
        if (path / name).is_dir() and not (path / name).is_symlink():
            shutil.rmtree(path / name)
        else:
            (path / name).unlink(missing_ok=True)
    folder.config_file.write_text(dump(config))
    folder.snapshots.mkdir()
    return folder, lock


def reopen(path: Path) -> tuple[RunFolder, Lock]:
    """The folder of a run to go on with."""
    return find(path), Lock(path)


def find(path: Path) -> RunFolder:
    """A folder that holds a run, to read from."""
    folder = RunFolder(path)
    if not folder.is_run():
        siblings = [str(p) for p in path.parent.glob("*") if RunFolder(p).is_run()] if path.parent.is_dir() else []
        hint = nearest(str(path), siblings) or (f"; there are {', '.join(sorted(siblings)[:5])}" if siblings else "")
        raise RunError(f"{path} holds no run{hint}")
    return folder


OWN: Final = (
    "config.yaml", "metrics.jsonl", "summary.json", "held_out.npz", "checkpoints", "damaged", "snapshots", "policies",
    "gallery", "evaluations", "tensorboard",
)  # fmt: skip
"""What a run writes, and all that `--overwrite` removes."""
