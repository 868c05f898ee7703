"""What several devices need and give: memory of the compiled step, speed against runs that are on their own.

python benchmarks/scale.py memory paper-accel --devices 1 8     # bytes a device, as XLA counts them on this machine
python benchmarks/scale.py speed quick-dr --seconds 60          # one device, two devices, two processes, two runs apart

For speed take DR: all of its iterations are alike. A preset or a config file can be named.
"""

import dataclasses
import json
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
    import jax.numpy as jnp

    from atlas.build import build
    from atlas.devices import Layout, mesh_of
    from atlas.presets import preset as find

    jax.config.update("jax_num_cpu_devices", devices)
    trainer = build(find(preset).config, Layout(mesh_of(devices)) if devices > 1 else Layout())
    shapes = trainer.shapes
    if devices > 1:
        shapes = jax.tree.map(
            lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), shapes, trainer.shardings
        )
    plan = trainer.compiled.lower(shapes, jnp.int32(1)).compile().memory_analysis()
    return {
        "devices": devices,
        "state": _state_bytes(trainer) / 1e6,
        "arguments": plan.argument_size_in_bytes / 1e6,
        "temporary": plan.temp_size_in_bytes / 1e6,
        "code": plan.generated_code_size_in_bytes / 1e6,
    }


def _state_bytes(trainer: object) -> float:
    """What one device keeps between iterations, by the shapes alone."""
    import jax

    def size(leaf: object, where: object) -> int:
        shape = leaf.shape if where is None else where.shard_shape(leaf.shape)
        one = 8 if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize
        count = 1
        for length in shape:
            count *= length
        return count * one

    alone = trainer.layout.mesh is None
    places = jax.tree.map(lambda _: None, trainer.shapes) if alone else trainer.shardings
    leaves = jax.tree.leaves(trainer.shapes)
    where = [None] * len(leaves) if alone else jax.tree.leaves(places)
    return float(sum(map(size, leaves, where)))


def speed(preset: str, seconds: float) -> dict[str, float]:
    """Env steps a second: one device on all cores, two devices, two processes, and two runs of one core each."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = _together(folder, preset, seconds, {"alone": ([], cores)})
        devices = _together(folder, preset, seconds, {"devices": (["--devices", "2"], cores)})
        pair = ["--coordinator", "localhost:12355", "--num-hosts", "2", "--host-id"]
        hosts = _together(
            folder, preset, seconds, {f"host-{i}": ([*pair, str(i)], [core]) for i, core in enumerate(cores)}
        )
        apart = _together(
            folder, preset, seconds, {f"apart-{i}": (["--run.seed", str(i)], [core]) for i, core in enumerate(cores)}
        )
    return {"one device": alone, "two devices": devices, "two processes": hosts, "two runs apart": apart}


def _together(folder: Path, preset: str, seconds: float, runs: dict[str, tuple[list[str], list[int]]]) -> float:
    """Start some runs at once, each on its cores; steps a second of all of them, compiling left out."""
    common = ["--run.time-limit", str(seconds / 60), "--run.snapshot-every", "1e6", "--run.checkpoint-every", "1e6"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "atlas", "train", preset, "--folder", str(folder / name), *common, *more],
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores),
        )
        for name, (more, cores) in runs.items()
    ]
    for process in started:
        process.wait()
    return sum(_rate(folder / name / "metrics.jsonl") for name in runs if (folder / name).exists())


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
