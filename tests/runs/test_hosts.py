"""Processes that train together: two real ones on loopback, killed, stopped and resumed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atlas.cli import main
from atlas.errors import AtlasError
from atlas.runs.folder import RunFolder
from atlas.runs.hosts import Hosts, Team, in_cluster, join
from atlas.runs.metrics import read

CONFIG = """
domain: {rooms: [1], step_limit: 8}
tasks: {max_length: 1}
teacher: {name: plr, num_eval: 16, buffer: {capacity: 32}}
student:
  network: {view: dense, view_width: 8, task_width: 8, edge_width: 8, recurrent: 8, head_width: 8, graph_layers: 1}
  ppo: {epochs: 1, minibatch_envs: 4}
run: {num_envs: 8, rollout: 8, total_steps: STEPS, snapshot_every: 1000.0, checkpoint_every: 0.2}
"""
PATIENCE = 600


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        (Hosts(devices=0), "--devices 0 is not allowed"),
        (Hosts(coordinator="here:1"), "belong together"),
        (Hosts(coordinator="here:1", num_hosts=2, host_id=2), "--host-id 2 is not allowed: 0 to 1"),
        (Hosts(coordinator="here", num_hosts=2, host_id=1), "--coordinator here is not allowed: ADDRESS:PORT"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(hosts, words):
    with pytest.raises(AtlasError, match=words):
        hosts.check()


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        ({"SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "0"}, True),
    ],
)
def test_clusters_are_recognised(environment, several):
    assert in_cluster(environment) == several


def test_a_process_alone_agrees_with_itself():
    with Team() as team:
        assert team.is_leader
        assert team.all_gather({"pace": 3}) == [{"pace": 3}]


class Store:
    """Stands in for the key-value store of JAX's coordinator."""

    def __init__(self):
        self.kept = {}

    def key_value_set(self, key, value):
        assert key not in self.kept
        self.kept[key] = value

    def blocking_key_value_get(self, key, timeout):
        return self.kept[key]

    def key_value_delete(self, key):
        del self.kept[key]


def test_values_are_gathered_in_the_order_of_hosts_and_not_kept_for_ever():
    store = Store()
    one, two = Team(0, 2, store), Team(1, 2, store)
    for number in range(10):
        two._post({"value": [number, "two"]})
        assert one.all_gather([number, "one"]) == [[number, "one"], [number, "two"]]
        two.rounds += 1
    assert len([key for key in store.kept if key.endswith("/0")]) == 2


def test_a_host_that_fails_tells_the_others_why():
    store = Store()
    one, two = Team(0, 2, store), Team(1, 2, store)
    with pytest.raises(ZeroDivisionError), two:
        raise ZeroDivisionError("nothing to share")
    with pytest.raises(AtlasError, match=r"host 1 stopped: nothing to share, so host 0 stops, too; `atlas resume`"):
        one.barrier()


def test_an_exchange_that_fails_is_a_sentence_even_if_jax_lets_the_process_live(monkeypatch):
    import jax

    monkeypatch.setattr("atlas.runs.hosts.LOST", 0)
    words = r"another host is gone \(Gloo all-reduce failed\), so host 1 stops, too; `atlas resume` goes on"
    with pytest.raises(AtlasError, match=words), Team(1, 2, Store()):
        raise jax.errors.JaxRuntimeError("Gloo all-reduce failed")


def test_a_name_that_only_this_host_reaches_is_a_sentence(monkeypatch):
    """Debian gives every machine such a name: the others would wait in vain."""
    monkeypatch.setattr("socket.getaddrinfo", lambda name, _: [(2, 1, 6, "", ("127.0.1.1", 0))])
    with pytest.raises(AtlasError, match=r"on this host box means 127.0.1.1, where no other host can reach it"):
        join(Hosts(coordinator="box:1234", num_hosts=2, host_id=0))


@pytest.mark.parametrize(("end", "told"), [("os.abort()", True), ("os.kill(os.getpid(), 9)", False), ("", False)])
def test_a_process_that_is_aborted_leaves_a_sentence(end, told):
    """As JAX aborts one that lost the others; not one that is killed or ends by itself."""
    start = "import os; from atlas.runs.hosts import AbortReporter; w = AbortReporter(); w.set_message('atlas: alone')"
    code = f"{start}; {end}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert ("atlas: alone" in done.stderr) == told


def test_more_devices_than_environments_is_a_sentence_and_leaves_no_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "atlas", "train", "tiny", "--folder", str(tmp_path / "run"), "--devices", "3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 2
    assert "run.num_envs = 8 is not allowed: a multiple of the number of devices, 3, is needed" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "short.yaml").write_text(CONFIG.replace("STEPS", "20000"))
    (folder / "long.yaml").write_text(CONFIG.replace("STEPS", "100000000"))
    return folder


def start(place: Path, *arguments: str) -> list[subprocess.Popen]:
    """Both processes; the first leads."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }
    return [
        subprocess.Popen(
            [sys.executable, "-m", "atlas", *arguments, "--coordinator", address, "--num-hosts", "2", "--host-id", who],
            cwd=place, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for who in ("0", "1")
    ]  # fmt: skip


def saved(place: Path, name: str) -> list[int]:
    folder = place / name / "checkpoints"
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []


def wait_for_checkpoint(place: Path, name: str, processes: list[subprocess.Popen], after: int = 0) -> None:
    deadline = time.monotonic() + PATIENCE
    while not saved(place, name) or saved(place, name)[-1] <= after:
        assert all(process.poll() is None for process in processes), [p.communicate()[0] for p in processes]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str]]:
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


def listening(process: subprocess.Popen) -> set[str]:
    """The addresses, in hexadecimal, at which a process waits for connections."""
    sockets = {os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.is_symlink()}
    rows = [
        line.split()
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/{process.pid}/net/{family}").read_text().splitlines()[1:]
    ]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


ENDED = {-signal.SIGABRT, 2}
"""JAX ends a process that has lost another; or an exchange between devices fails first, which is a sentence."""
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1."""


@pytest.mark.slow
def test_two_processes_train_one_run(place):
    processes = start(place, "train", "short.yaml", "--folder", "together")
    deadline = time.monotonic() + PATIENCE
    while not (heard := listening(processes[0])) and processes[0].poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert heard
    assert heard <= LOOPBACK
    (first, told), (second, silent) = finish(processes)
    assert first == second == 0, told + silent
    assert "on 2 devices" in told
    assert "[Gloo]" in silent or not silent.strip()
    records = read(RunFolder(place / "together").metrics_file)
    assert records[-1]["steps"] >= 20_000
    assert json.loads((place / "together" / "summary.json").read_text())["stopped"] is False


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_is_killed_the_other_ends_with_a_sentence_and_the_run_goes_on(place, victim, tmp_path):
    name = f"killed-{victim}"
    processes = start(place, "train", "long.yaml", "--folder", name)
    wait_for_checkpoint(place, name, processes)
    processes[victim].send_signal(signal.SIGKILL)
    left = processes[1 - victim]
    output, _ = left.communicate(timeout=60)
    assert left.returncode == -signal.SIGABRT  # JAX's way to end a process that lost another
    assert f"so host {1 - victim} stops, too; `atlas resume` goes on from the last checkpoint" in output
    stop_after_a_checkpoint(place, name, start(place, "resume", name), signal.SIGTERM, who=1)


@pytest.mark.slow
def test_preempted_on_two_it_goes_on_on_one(place, capsys):
    name = "preempted"
    stop_after_a_checkpoint(place, name, start(place, "train", "long.yaml", "--folder", name), signal.SIGTERM, who=1)
    done = json.loads((place / name / "summary.json").read_text())
    more = str(done["steps"] + 2_000)
    assert main(["resume", str(place / name), "--run.total-steps", more, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= done["steps"] + 2_000


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_is_frozen_for_a_minute_both_end_and_the_run_goes_on_on_one(place, victim, capsys):
    name = f"frozen-{victim}"
    processes = start(place, "train", "long.yaml", "--folder", name)
    wait_for_checkpoint(place, name, processes)
    processes[victim].send_signal(signal.SIGSTOP)
    left = processes[1 - victim]
    frozen = time.monotonic()
    output, _ = left.communicate(timeout=PATIENCE)
    assert left.returncode in ENDED
    assert f"so host {1 - victim} stops, too; `atlas resume` goes on from the last checkpoint" in output
    time.sleep(max(0.0, 60 - (time.monotonic() - frozen)))
    processes[victim].send_signal(signal.SIGCONT)
    output, _ = processes[victim].communicate(timeout=PATIENCE)
    assert processes[victim].returncode in ENDED
    assert f"so host {victim} stops, too; `atlas resume` goes on from the last checkpoint" in output
    capsys.readouterr()
    steps = json.loads((place / name / "checkpoints" / str(saved(place, name)[-1]) / "about" / "metadata").read_text())
    more = str(steps["steps"] + 2_000)
    assert main(["resume", str(place / name), "--run.total-steps", more, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= steps["steps"] + 2_000


@pytest.mark.slow
def test_a_process_that_does_not_belong_ends_the_run_with_a_sentence(place):
    """Whoever reaches the coordinator can do that; the run says so, and loses nothing."""
    name = "intruded"
    processes = start(place, "train", "long.yaml", "--folder", name)
    wait_for_checkpoint(place, name, processes)
    last = saved(place, name)[-1]
    address = processes[0].args[processes[0].args.index("--coordinator") + 1]
    intruder = (
        f"import jax; jax.distributed.initialize({address!r}, 2, 1, initialization_timeout=20, "
        "heartbeat_timeout_seconds=10)"
    )
    subprocess.run([sys.executable, "-c", intruder], capture_output=True, timeout=PATIENCE)
    outputs = finish(processes)
    assert all(code != 0 for code, _ in outputs)
    assert all("some other process has connected to the coordinator" in output for _, output in outputs), outputs
    assert saved(place, name)[-1] >= last


def stop_after_a_checkpoint(place, name, processes, number, who):
    """Ask one of them to stop: both do, and everything is saved."""
    last = saved(place, name)[-1] if saved(place, name) else 0
    wait_for_checkpoint(place, name, processes, after=last)
    processes[who].send_signal(number)
    (first, told), (second, silent) = finish(processes)
    assert first == second == 0, told + silent
    summary = json.loads((place / name / "summary.json").read_text())
    assert summary["stopped"] is True
    assert saved(place, name)[-1] == summary["iteration"]
