"""Numbers over the course of a run, one JSON object a line; optional copies for TensorBoard and Weights & Biases."""

import contextlib
import json
import math
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol, runtime_checkable

from atlas.documents import parse_json, read_bytes, read_text
from atlas.errors import AtlasError, extra
from atlas.runs.store import write_whole

Record = dict[str, Any]
MOST_BYTES: Final = 1 << 32
"""Most bytes of a metrics file."""


@runtime_checkable
class Sink(Protocol):
    """Somewhere records go."""

    def write(self, record: Record) -> None:
        """Take one record; it has an `iteration` and `steps`."""

    def close(self) -> None:
        """Make sure that everything has arrived."""


class JsonLines:
    """The run's own metrics file. On resume, records after `iteration` are dropped."""

    def __init__(self, path: Path, iteration: int | None = None) -> None:
        if iteration is not None and path.exists():
            kept = [record for record in read(path) if record.get("iteration", 0) <= iteration]
            write_whole(path, "".join(_line(record) for record in kept))
        self.file: IO[str] = path.open("a")

    def write(self, record: Record) -> None:
        self.file.write(_line(record))
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoard:
    """Every number as a scalar over env steps. On resume, what came after `steps` is no longer shown."""

    def __init__(self, folder: Path, steps: int = 0) -> None:
        module = extra("tensorboardX", "--tensorboard", "tensorboard")
        self.writer = module.SummaryWriter(str(folder), purge_step=steps + 1 if steps else None)

    def write(self, record: Record) -> None:
        for name, value in flat(record):
            self.writer.add_scalar(name, value, record["steps"])

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """Every number as a metric over env steps; works offline with WANDB_MODE=offline. A run that goes on keeps its
    identifier, so its records are added to what is there."""

    def __init__(self, folder: Path, name: str, config: dict[str, Any], identifier: str) -> None:
        wandb = extra("wandb", "--wandb", "wandb")
        self.run = wandb.init(
            project="atlas", name=name, dir=str(folder), config=config, id=identifier, resume="allow",
            settings=wandb.Settings(silent=True),
        )  # fmt: skip
        # Not W&B's own count of steps: that one refuses records from before the last.
        self.run.define_metric("*", step_metric="steps")

    def write(self, record: Record) -> None:
        self.run.log(dict(flat(record)))

    def close(self) -> None:
        self.run.finish()


@dataclass(frozen=True)
class Sinks:
    """Sinks of a run's records beside its own file; kept in its folder, so that `atlas resume` goes on with them."""

    tensorboard: bool = False
    wandb: str | None = None
    """The identifier of its W&B run."""

    def with_more(self, tensorboard: bool, wandb: bool) -> "Sinks":
        """These, and those that are asked for. Fails if a package is missing."""
        if tensorboard or self.tensorboard:
            extra("tensorboardX", "--tensorboard", "tensorboard")
        if wandb or self.wandb:
            extra("wandb", "--wandb", "wandb")
        identifier = self.wandb or (secrets.token_hex(4) if wandb else None)
        return Sinks(tensorboard or self.tensorboard, identifier)

    @classmethod
    def read(cls, path: Path) -> "Sinks":
        """The sinks of a run; none if its file is missing or damaged."""
        try:
            return cls(**parse_json(read_text(path)))
        except (OSError, ValueError, TypeError, AtlasError):
            return cls()

    def open(self, path: Path, folder: Path, config: dict[str, Any], steps: int) -> list[Sink]:
        """All of them, remembered in a file; the run is at so many steps."""
        if self != Sinks():
            write_whole(path, json.dumps(asdict(self)) + "\n")
        opened: list[Sink] = [TensorBoard(folder / "tensorboard", steps)] if self.tensorboard else []
        return opened + ([WeightsAndBiases(folder, folder.name, config, self.wandb)] if self.wandb else [])


def flat(record: Record, prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a record by their path, e.g. `losses/value`."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, float(value)


def read(path: Path) -> list[Record]:
    """All whole records of a metrics file; lines that are none are skipped, as the half of one that a crash leaves."""
    records = []
    for line in read_bytes(path, MOST_BYTES).split(b"\n") if path.exists() else []:
        with contextlib.suppress(ValueError):
            record = parse_json(line.decode())
            if isinstance(record, dict) and isinstance(record.get("iteration", 0), int):
                records.append(record)
    return records


def _line(record: Record) -> str:
    return json.dumps(_plain(record), allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Numbers that JSON knows: what is not finite becomes null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
