"""One small run that is disturbed at random for as long as you like, and whether it ends where an undisturbed one ends.

`python benchmarks/soak.py --minutes 90` trains while the run is killed, asked to stop, interrupted, frozen, put on a
full disk, and its checkpoints are damaged; then the same run is trained undisturbed to the same iteration. The last
checkpoints must be equal bit for bit, every process must have ended as it should, and the memory and the open files of
none may grow. Given again, both runs go on where they were. The exit code is 0 iff all is well; `soak.json` tells more.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

CONFIG: Final = """
domain: {rooms: [1], step_limit: 8}
tasks: {max_length: 1}
teacher: {name: accel, num_eval: 16, buffer: {capacity: 64}}
student:
  network: {view: dense, view_width: 8, task_width: 8, edge_width: 8, recurrent: 8, head_width: 8, graph_layers: 1}
  ppo: {epochs: 1, minibatch_envs: 4}
run: {num_envs: 8, rollout: 8, total_steps: 1000000000000, snapshot_every: 20.0, checkpoint_every: 1.0}
"""
DISTURBED: Final = 0.6
"""Share of the time that the disturbed run gets; the other one needs no restarts."""
SHORTEST: Final = 2.0
"""Seconds of the processor that a process is let be, at least: Python itself needs some to start."""
WARM: Final = 2
"""How often a process must have looked at held-out problems until it has grown to its size: all is compiled then."""
MORE_MEMORY, MORE_FILES = 64.0, 4
"""Megabytes and open files that a process may grow by, from the first third of its life to the last."""


class Soak:
    """Both runs, and what has happened to them."""

    def __init__(self, folder: Path, seed: int, patience: float) -> None:
        self.patience = patience
        self.folder, self.run, self.calm = folder, folder / "disturbed", folder / "undisturbed"
        self.book = folder / "soak.json"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "soak.yaml").write_text(CONFIG)
        self.told: dict[str, Any] = {"calls": 0, "happened": {}, "amiss": [], "growth": []}
        if self.book.exists():
            self.told = json.loads(self.book.read_text())
        self.happened = Counter(self.told["happened"])
        self.chance = random.Random(f"{seed} {self.told['calls']}")
        self.told["calls"] += 1

    def start(self, run: Path, *settings: str) -> "Process":
        """Begin or go on with a run."""
        new = ("train", str(self.folder / "soak.yaml"), "--folder", str(run))
        return Process(self, run, *(("resume", str(run)) if (run / "config.yaml").exists() else new), *settings)

    def amiss(self, sentence: str) -> None:
        print(f"AMISS: {sentence}", flush=True)
        self.told["amiss"].append(sentence)

    def keep(self) -> None:
        self.told["happened"] = dict(self.happened)
        self.book.write_text(json.dumps(self.told, indent=2) + "\n")


class Process:
    """One stretch of a run, its memory and open files measured every second."""

    def __init__(self, soak: Soak, run: Path, *arguments: str) -> None:
        self.soak, self.run, self.log = soak, run, (soak.folder / "output.log").open("w+")
        environment = {**os.environ, "XDG_CACHE_HOME": str(soak.folder / "cache")}
        command = [sys.executable, "-m", "atlas", *arguments]
        self.process = subprocess.Popen(command, env=environment, stdout=self.log, stderr=subprocess.STDOUT)
        self.begun = looks(run)
        self.samples: list[tuple[float, int]] = []
        """Megabytes and open files, since it has grown to its size."""

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def live(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let it be for so long, until something holds, or until it ends."""
        end = time.monotonic() + seconds
        while self.alive and time.monotonic() < end and not until():
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
                files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
                memory = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
            except (OSError, StopIteration):  # it has just ended
                break
            if self.samples or looks(self.run) >= self.begun + WARM:
                self.samples.append((memory, files))
            time.sleep(min(1.0, max(0.0, end - time.monotonic())))

    def live_a_while(self, seconds: float) -> None:
        """So many seconds of the processor from its start, or from its first new checkpoint on: both are worth
        disturbing."""
        if self.soak.chance.random() < 0.5:
            self.train()
        end = self.worked() + seconds
        self.live(self.soak.patience, until=lambda: self.worked() >= end)

    def worked(self) -> float:
        """Seconds of the processor so far."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def train(self) -> None:
        """Until there is a checkpoint that was not there before."""
        before = max(saved(self.run), default=0)
        self.live(self.soak.patience, until=lambda: max(saved(self.run), default=0) > before)
        if self.alive and max(saved(self.run), default=0) <= before:
            self.soak.amiss(f"no new checkpoint within {self.soak.patience:.0f} s")

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            self.process.send_signal(number)

    def end(self, what: str, codes: tuple[int, ...]) -> str:
        """Wait for its end; the exit code must be one of these. Returns what it printed."""
        try:
            code = self.process.wait(self.soak.patience)
        except subprocess.TimeoutExpired:
            self.soak.amiss(f"{what}: no end within {self.soak.patience:.0f} s")
            self.process.kill()
            code = self.process.wait()
        self.log.seek(0)
        output = self.log.read()
        self.log.close()
        if code not in codes:
            self.soak.amiss(f"{what}: exit code {code}: {output.strip()[-400:]}")
        for words in ("Traceback", "internal error"):
            if words in output:
                self.soak.amiss(f"{what}: {output[max(0, output.index(words) - 200) :][:800]}")
        self._require_flat(what)
        return output

    def _require_flat(self, what: str) -> None:
        warm, third = self.samples, len(self.samples) // 3
        if third < 10:
            return
        first, last = ([median(column) for column in zip(*part, strict=True)] for part in (warm[:third], warm[-third:]))
        grown = {"seconds": len(warm), "megabytes": last[0] - first[0], "files": last[1] - first[1], "of": first[0]}
        self.soak.told["growth"].append(grown)
        if grown["megabytes"] > MORE_MEMORY or grown["files"] > MORE_FILES:
            self.soak.amiss(f"{what}: a process grew in {len(warm)} s: {grown}")


def saved(run: Path) -> list[int]:
    """The iterations at which there is a checkpoint."""
    folder = run / "checkpoints"
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []


def looks(run: Path) -> int:
    """How often a run has looked at held-out problems so far."""
    file = run / "metrics.jsonl"
    return file.read_bytes().count(b'"curriculum"') if file.exists() else 0


def about(run: Path) -> dict[str, Any]:
    """The description of the last checkpoint."""
    return json.loads((run / "checkpoints" / str(saved(run)[-1]) / "about" / "metadata").read_text())


def disturb(soak: Soak, seconds: float) -> None:
    """Start, disturb and start again until the time is over; at the end the run is stopped and saved."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        what = soak.chance.choice(list(DISTURBANCES))
        soak.happened[what] += 1
        DISTURBANCES[what](soak, min(SHORTEST + soak.chance.expovariate(1 / 20), max(SHORTEST, end - time.monotonic())))
        soak.keep()
        last = max(saved(soak.run), default=0)
        print(f"{max(0.0, end - time.monotonic()):6.0f} s left, iteration {last:,}: {what}", flush=True)
    process = soak.start(soak.run)
    process.train()
    process.send(signal.SIGTERM)
    process.end("the last stop", (0,))


def kill(soak: Soak, seconds: float) -> None:
    process = soak.start(soak.run)
    process.live_a_while(seconds)
    process.send(signal.SIGKILL)
    process.end("killed", (-signal.SIGKILL,))


def stop(soak: Soak, seconds: float, number: signal.Signals = signal.SIGTERM) -> None:
    """While it still compiles, the signal ends it; later it saves first."""
    process = soak.start(soak.run)
    process.live_a_while(seconds)
    process.send(number)
    process.end(f"stopped by {number.name}", (0, -signal.SIGTERM, 130))


def interrupt(soak: Soak, seconds: float) -> None:
    stop(soak, seconds, signal.SIGINT)


def freeze(soak: Soak, seconds: float) -> None:
    process = soak.start(soak.run)
    process.live_a_while(seconds)
    process.send(signal.SIGSTOP)
    time.sleep(soak.chance.uniform(1, 15))
    process.send(signal.SIGCONT)
    process.live(soak.chance.uniform(1, 15))
    process.send(signal.SIGTERM)
    process.end("stopped after it was frozen", (0, -signal.SIGTERM))


def damage(soak: Soak, seconds: float) -> None:
    """Kill it, then spoil files of its newest checkpoints; one always stays good."""
    kill(soak, seconds)
    for iteration in saved(soak.run)[1:][-soak.chance.randint(1, 2) :]:
        files = [p for p in sorted((soak.run / "checkpoints" / str(iteration)).rglob("*")) if p.is_file()]
        victim = soak.chance.choice(files)
        content = bytearray(victim.read_bytes())
        if soak.chance.random() < 0.5 or not content:
            victim.write_bytes(content[: len(content) // 2])
        else:
            content[soak.chance.randrange(len(content))] ^= 1 << soak.chance.randrange(8)
            victim.write_bytes(content)


def fill_disk(soak: Soak, seconds: float) -> None:
    """Go on on a small disk until it is full. Where none can be mounted, no file may grow instead."""
    if not (soak.run / "config.yaml").exists():
        kill(soak, seconds)
        return
    with small_disk(soak) as disk:
        if disk is None:
            soak.happened["fill_disk, by a limit on files"] += 1
            process = soak.start(soak.run)
            process.live_a_while(seconds)
            if process.alive:
                subprocess.run(["prlimit", "--pid", str(process.process.pid), "--fsize=2000:2000"], check=True)
            told = process.end("no file may grow", (2,))
        else:
            run = disk / soak.run.name
            process = soak.start(run)
            process.live_a_while(seconds)
            with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:  # the run writes meanwhile, so what is free now says little
                    ballast.write(bytes(1 << 16))
            told = process.end("the disk is full", (2,))
            (disk / "ballast").unlink()
            if "the disk is full" not in told:
                soak.amiss(f"a full disk was not named: {told.strip()[-300:]}")
    if "goes on from there" not in told and "earlier checkpoints are kept" not in told:
        soak.amiss(f"trouble with the disk without a way out: {told.strip()[-300:]}")


@contextmanager
def small_disk(soak: Soak) -> Iterator[Path | None]:
    """A disk with little room that holds the run; afterwards it is copied back. None where none can be mounted."""
    disk = soak.folder / "small-disk"
    disk.mkdir(exist_ok=True)
    size = sum(p.stat().st_size for p in soak.run.rglob("*") if p.is_file()) + 30_000_000
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        yield None
        return
    try:
        shutil.copytree(soak.run, disk / soak.run.name)
        yield disk
        shutil.copytree(disk / soak.run.name, soak.folder / "copy")
        shutil.rmtree(soak.run)
        (soak.folder / "copy").rename(soak.run)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


DISTURBANCES: Final[dict[str, Callable[[Soak, float], None]]] = {
    "kill": kill, "stop": stop, "interrupt": interrupt, "freeze": freeze, "damage": damage, "fill_disk": fill_disk,
}  # fmt: skip


def compare(soak: Soak) -> None:
    """Train the other run to the same iteration, undisturbed, and look for differences."""
    goal = about(soak.run)
    print(f"{sum(soak.happened.values())} disturbances; now undisturbed to iteration {goal['iteration']:,}", flush=True)
    process = soak.start(soak.calm, "--run.total-steps", str(goal["steps"]))
    process.live(1e9)
    process.end("undisturbed", (0,))
    other = about(soak.calm)
    for key in ("iteration", "steps", "digest"):
        if goal[key] != other[key]:
            soak.amiss(f"the last checkpoints differ in {key}: {goal[key]} and {other[key]}")
    lines = [json.loads(line) for line in (soak.run / "metrics.jsonl").read_text().splitlines()]
    iterations = [line["iteration"] for line in lines]
    if iterations != sorted(set(iterations)):
        soak.amiss("the iterations of the metrics do not ascend")
    if iterations[-1] != goal["iteration"]:
        soak.amiss(f"the metrics end at {iterations[-1]}, the checkpoints at {goal['iteration']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs") / "soak")
    parser.add_argument(
        "--patience", type=float, default=180.0, help="seconds that anything may take (busy machines: more)"
    )
    args = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C, and so would all that is started from it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    soak = Soak(args.folder.absolute(), args.seed, args.patience)
    try:
        disturb(soak, 60 * DISTURBED * args.minutes)
        compare(soak)
    finally:
        soak.keep()
    growth = soak.told["growth"]
    most = {key: max((one[key] for one in growth), default=0) for key in ("megabytes", "files", "seconds")}
    print(f"happened: {dict(soak.happened)}")
    print(
        f"growth of {len(growth)} processes: {most['megabytes']:.1f} MB and {most['files']:.0f} files at most "
        f"(the longest was watched for {most['seconds']} s)"
    )
    print(f"{len(soak.told['amiss'])} things amiss" if soak.told["amiss"] else "all is well: equal bit for bit")
    return 1 if soak.told["amiss"] else 0


if __name__ == "__main__":
    sys.exit(main())
