"""What several devices need and give: memory of the compiled step, speed against runs that are on their own.

python benchmarks/scale.py memory paper-accel --devices 1 8     # bytes a device, as XLA counts them on this machine
python benchmarks/scale.py speed quick-dr --seconds 60          # one device, two devices, two processes, two runs apart

For speed take DR: all of its iterations are alike. A preset or a config file can be named.
"""

import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Args:
    """Measure memory or speed."""

    what: Annotated[tyro.conf.Positional[Literal["memory", "speed"]], tyro.conf.arg(metavar="WHAT")]
    preset: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PRESET")] = "quick-dr"
    devices: tuple[int, ...] = (1, 2)
    """Numbers of devices to compile for (memory)."""
    seconds: float = 60.0
    """Length of each run (speed)."""


def memory(preset: str, devices: int) -> dict[str, float]:
    """Megabytes a device: computed from the shapes of what is kept, and as the compiler plans them."""
    import jax

    from atlas.build import build
    from atlas.devices import Layout, mesh_of
    from atlas.presets import preset as find

    jax.config.update("jax_num_cpu_devices", devices)
    trainer = build(find(preset).config, Layout(mesh_of(devices)) if devices > 1 else Layout())
    leaves = jax.tree.leaves(trainer.shapes)
    where = jax.tree.leaves(trainer.shardings) if devices > 1 else [None] * len(leaves)
    own = [(at.shard_shape(x.shape) if at else x.shape, x.dtype) for x, at in zip(leaves, where, strict=True)]
    plans = [lower().compile().memory_analysis() for lower in trainer.compiled.programs().values()]
    return {
        "devices": devices,
        "state": sum(math.prod(shape) * dtype.itemsize for shape, dtype in own) / 1e6,
        "arguments": max(plan.argument_size_in_bytes for plan in plans) / 1e6,
        "temporary": max(plan.temp_size_in_bytes for plan in plans) / 1e6,
        "code": sum(plan.generated_code_size_in_bytes for plan in plans) / 1e6,
    }


def speed(preset: str, seconds: float) -> dict[str, float]:
    """Env steps a second: one device on all cores, two devices, two processes, and two runs of one core each."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    hosts = ["--coordinator", "localhost:12355", "--num-hosts", "2", "--host-id"]
    kinds: dict[str, list[tuple[list[str], list[int]]]] = {
        "one device": [([], cores)],
        "two devices": [(["--devices", "2"], cores)],
        "two processes": [([*hosts, str(i)], [core]) for i, core in enumerate(cores)],
        "two runs apart": [(["--run.seed", str(i)], [core]) for i, core in enumerate(cores)],
    }
    with tempfile.TemporaryDirectory() as folder:
        return {kind: _together(Path(folder) / kind, preset, seconds, runs) for kind, runs in kinds.items()}


def _together(folder: Path, preset: str, seconds: float, runs: list[tuple[list[str], list[int]]]) -> float:
    """Start some runs at once, each on its cores; steps a second of all of them, compiling left out."""
    common = ["--run.time-limit", str(seconds / 60), "--run.snapshot-every", "1e6", "--run.checkpoint-every", "1e6"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "atlas", "train", preset, "--folder", str(folder / str(number)), *common, *more],
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores),
        )
        for number, (more, cores) in enumerate(runs)
    ]
    for process in started:
        process.wait()
    return sum(map(_rate, folder.glob("*/metrics.jsonl")))


def _rate(path: Path) -> float:
    """Steps a second of the later half of a run, which has found its pace."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return median(record["steps_per_second"] for record in records[len(records) // 2 :])


def main() -> None:
    args = tyro.cli(Args)
    if args.what == "speed":
        print(json.dumps(speed(args.preset, args.seconds), indent=2))
    elif len(args.devices) == 1:
        print(json.dumps(memory(args.preset, args.devices[0])), flush=True)
    else:  # a process each: the number of devices is fixed when JAX starts
        for number in args.devices:
            alone = dataclasses.replace(args, devices=(number,))
            subprocess.run([sys.executable, __file__, alone.what, alone.preset, "--devices", str(number)], check=True)


if __name__ == "__main__":
    main()
