"""Numbers over the course of a run, one JSON object a line; optional copies for TensorBoard and Weights & Biases."""

import contextlib
import importlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Protocol, runtime_checkable

from atlas.documents import parse_json, read_bytes
from atlas.errors import AtlasError

Record = dict[str, Any]
MOST_BYTES: Final = 1 << 32
"""Of a metrics file."""


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
            fresh = path.with_suffix(".partial")
            fresh.write_text("".join(_line(record) for record in kept))
            fresh.replace(path)
        self.file: IO[str] = path.open("a")

    def write(self, record: Record) -> None:
        self.file.write(_line(record))
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class TensorBoard:
    """Every number as a scalar over env steps."""

    def __init__(self, folder: Path) -> None:
        self.writer = extra("tensorboardX", "--tensorboard", "tensorboard").SummaryWriter(str(folder))

    def write(self, record: Record) -> None:
        for name, value in flat(record):
            self.writer.add_scalar(name, value, record["steps"])

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    """Every number as a metric over env steps; works offline with WANDB_MODE=offline."""

    def __init__(self, folder: Path, name: str, config: dict[str, Any]) -> None:
        wandb = extra("wandb", "--wandb", "wandb")
        self.run = wandb.init(project="atlas", name=name, dir=str(folder), config=config, resume="allow")

    def write(self, record: Record) -> None:
        self.run.log(dict(flat(record)), step=record["steps"])

    def close(self) -> None:
        self.run.finish()


def extra(module: str, what: str, name: str) -> Any:
    """A package that only some people need; `name` is that of the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise AtlasError(f"{what} needs a package that is not installed: pip install 'atlas-ued[{name}]'") from None


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
