"""What a change did to speed: two trees of this project measured in turn, several times each.

python benchmarks/before_after.py OLD NEW                    # five times each, under 12 minutes on two quiet cores
python benchmarks/before_after.py OLD NEW --out both.json    # and keep every number

A tree is a checkout; it needs no install of its own. Every measurement is a process of its own that sees one tree,
and the trees take turns, so a machine that slows down slows both. A row is the median of the rounds; the ratio is the
median of the rounds' own ratios, with the least and the largest of them. A tree from before `atlas.bench` had the names
that are used here is asked through `atlas bench --json` for the rows that it calls the same.
"""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

HERE = "--probe"
"""The argument with which this file measures the tree that its process sees."""


@dataclass(frozen=True)
class Args:
    """Measure two trees in turn."""

    old: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OLD")]
    new: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="NEW")]
    rounds: int = 5
    """How often each is measured."""
    quick: bool = False
    """Toy shapes: does everything run?"""
    out: Path | None = None
    """Where all numbers are written, as JSON."""


def probe(quick: bool) -> dict[str, dict[str, Any]]:
    """Rows of the tree that this process sees: name -> unit, median and quartiles."""
    import jax
    import jax.numpy as jnp

    from atlas import bench
    from atlas.build import build, parts
    from atlas.devices import ALONE, Layout, mesh_of
    from atlas.errors import AtlasError
    from atlas.presets import preset

    effort = bench.QUICK if quick else bench.FULL
    rows: dict[str, Any] = {}

    def note(name: str, row: Any, compiling: bool = False) -> None:
        rows[name] = {"unit": row.unit, "median": row.median, "low": row.low, "high": row.high}
        if compiling:
            rows[f"compile: {name}"] = {"unit": "s", "median": row.compile_seconds}

    def update(name: str, config: Any) -> Any:
        """The small network's is compiled anew each time, and that is timed as well."""
        trainer, amount = build(config), config.run.num_envs * config.run.rollout
        params, optimiser = jax.jit(getattr(trainer, "init_student", None) or trainer.begin)(bench.KEY)
        problems = bench.sample_batch(config, config.run.num_envs, 0)
        rollout = jax.jit(trainer.play)(bench.KEY, params, problems, None).rollout
        work = trainer.learn, bench.KEY, params, optimiser, rollout
        return bench.timed(effort, name, "steps/s", amount * config.student.ppo.epochs, *work, least=3)

    shapes = bench.shapes(effort)
    small, paper = shapes.get("small", shapes.get("toy")), shapes.get("paper", shapes.get("toy"))
    without_kept_programs()
    note("update, small network", update("", small), compiling=True)
    with_kept_programs()
    run, ppo = paper.run, paper.student.ppo
    less = dataclasses.replace(run, num_envs=run.num_envs // 2, rollout=run.rollout // 2)
    once = dataclasses.replace(paper.student, ppo=dataclasses.replace(ppo, epochs=1))
    limit = dataclasses.replace(paper.domain, step_limit=less.rollout)
    note("update, paper network", update("", dataclasses.replace(paper, run=less, student=once, domain=limit)))
    note("rollout, small network", bench.act(effort, "", small))
    batch, steps = (256, 32) if quick else (4096, 256)
    note("a step of the world", bench.world_step(effort, bench.config_of("cyclic", rooms=6), batch, steps))
    sample = parts(bench.config_of("sequential", "level")).sample
    draw = bench.timed(effort, "", "problems/s", batch, lambda key: sample(key, batch), bench.KEY)
    note("sampling, level-conditioned", draw)
    for sampler in ("sequential", "hierarchical")[: 1 if quick else 2]:
        note(f"children of {sampler} tasks", bench.edit_children(effort, sampler, batch))

    try:
        config = preset("tiny" if quick else "quick-accel").config
    except AtlasError:  # what it was called before
        config = preset("quick").config
    ready = dataclasses.replace(config.teacher.buffer, min_fill=0.0)
    config = dataclasses.replace(config, teacher=dataclasses.replace(config.teacher, replay_prob=1.0, buffer=ready))
    shards = config.worthwhile_shards(jax.device_count()) if hasattr(config, "worthwhile_shards") else 1
    trainer, amount = build(config, Layout(mesh_of(shards)) if shards > 1 else ALONE), config.env_steps(2, 1)
    state = trainer.compiled_init(bench.KEY)
    begin = time.perf_counter()
    state = bench.wait(trainer.compiled(state, jnp.int32(1))[0])  # with an empty buffer, one of new problems
    seconds, now = time.perf_counter() - begin, {"state": state}

    def iterate() -> None:
        now["state"] = bench.wait(trainer.compiled(now["state"], jnp.int32(2)))[0]

    name = "quick: a replay and an edit iteration, as many devices as by default"
    note(name, bench.measure(effort, "", "steps/s", iterate, amount, least=3, warm=True))
    rows["first call of quick (compiled in the first round, kept afterwards)"] = {"unit": "s", "median": seconds}
    return rows


def without_kept_programs() -> None:
    """Compile everything."""
    import jax

    jax.config.update("jax_enable_compilation_cache", False)


def with_kept_programs() -> None:
    """From the second round on, programs of the first are used."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", os.environ["BEFORE_AFTER_CACHE"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def measured(tree: Path, cache: Path, quick: bool) -> dict[str, dict[str, Any]]:
    """The rows of a tree, measured in a process of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    own = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    own |= {"PYTHONPATH": str(tree / "src"), "BEFORE_AFTER_CACHE": str(cache), "JAX_NUM_CPU_DEVICES": str(cores)}
    command = [sys.executable, __file__, HERE, *(["--quick"] if quick else [])]
    done = subprocess.run(command, env=own, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    print(f"{tree}: {done.stderr.strip().splitlines()[-1]}; its own `atlas bench` is asked instead", file=sys.stderr)
    return by_command(tree, own, quick)


ASKED = {
    "rollout, small network": ("student", "act, small network"),
    "a step of the world": ("world", "step, task 6 x 5 x 5, batch 4,096"),
    "sampling, level-conditioned": ("sampling", "problems, sequential, level-conditioned"),
    "children of sequential tasks": ("sampling", "children of sequential"),
    "children of hierarchical tasks": ("sampling", "children of hierarchical"),
}
"""Rows of `atlas bench` that measure the same: part, and how the name begins."""


def by_command(tree: Path, environment: dict[str, str], quick: bool) -> dict[str, dict[str, Any]]:
    """The rows that the tree's own benchmark has."""
    parts = dict.fromkeys(part for part, _ in ASKED.values())
    command = [sys.executable, "-m", "atlas", "bench", *parts, "--json", *(["--quick"] if quick else [])]
    alone = environment | {"JAX_NUM_CPU_DEVICES": "1"}
    done = subprocess.run(command, env=alone, cwd=tree, capture_output=True, text=True, check=True)
    ledger, found = json.loads(done.stdout)["parts"], {}
    for name, (part, begins) in ASKED.items():
        for row in ledger.get(part, {"rows": []})["rows"]:
            if row["name"].startswith(begins):
                found[name] = {key: row[key] for key in ("unit", "median", "low", "high")}
                break
    return found


def ratio(old: dict[str, Any], new: dict[str, Any]) -> float:
    """How many times as fast the new one is."""
    faster = old["median"] / new["median"]
    return 1 / faster if old["unit"].endswith("/s") else faster


def table(rounds: list[dict[str, dict[str, dict[str, Any]]]]) -> list[dict[str, Any]]:
    """The rows that both trees have in every round."""
    rows = []
    for name in rounds[0]["new"]:
        pairs = [(one["old"][name], one["new"][name]) for one in rounds if name in one["old"] and name in one["new"]]
        if pairs:
            ratios = [ratio(*pair) for pair in pairs]
            before, after = (statistics.median(pair[i]["median"] for pair in pairs) for i in (0, 1))
            rows.append(
                {"name": name, "unit": pairs[0][1]["unit"], "before": before, "after": after}
                | {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
            )
    return rows


def main() -> None:
    if HERE in sys.argv:
        print(json.dumps(probe("--quick" in sys.argv)))
        return
    args, begin = tyro.cli(Args, description=__doc__), time.monotonic()
    trees = {"old": args.old.resolve(), "new": args.new.resolve()}
    for tree in trees.values():
        if not (tree / "src" / "atlas").is_dir():
            sys.exit(f"{tree} holds no src/atlas")
    load, rounds = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            order = list(trees) if number % 2 == 0 else list(trees)[::-1]
            rounds.append({name: measured(trees[name], Path(folder) / name, args.quick) for name in order})
            print(f"round {number + 1} of {args.rounds}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    rows = table(rounds)
    if args.out:
        told = {"trees": {name: str(tree) for name, tree in trees.items()}, "load_before": load}
        args.out.write_text(json.dumps(told | {"rows": rows, "rounds": rounds}, indent=2) + "\n")
    print(f"| {args.rounds} rounds in turn, load before {load:.1f} | before | after | times as fast | least to most |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        numbers = f"{row['before']:,.4g} {row['unit']} | {row['after']:,.4g} {row['unit']}"
        print(f"| {row['name']} | {numbers} | {row['ratio']:.2f} | {row['least']:.2f} to {row['most']:.2f} |")


if __name__ == "__main__":
    main()
