"""Several processes, perhaps on several hosts, that train one run together.

Devices exchange numbers through JAX. Everything else the processes have to tell each other goes through the key-value
store of JAX's coordinator, so that nobody waits inside a computation, where devices give up after half a minute. JAX's
heartbeat watches whether all are alive, and ends every process when one is lost. Host 0 leads: it alone has the folder,
writes and prints. This module loads without JAX.
"""

import faulthandler
import ipaddress
import json
import os
import platform
import re
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from atlas.errors import AtlasError

LOST: Final = 25
"""Seconds without a heartbeat after which a process counts as lost."""
PATIENCE: Final = 120
"""Seconds that processes wait for each other at the start."""
FOREVER: Final = 7 * 24 * 3600 * 1000
"""Milliseconds to wait for an answer: JAX watches whether the others are alive."""

CPU_DEVICES: Final = "xla_force_host_platform_device_count"
"""The other way to ask for several devices of a CPU."""


@dataclass(frozen=True)
class Hosts:
    """Where this process stands among those that train together, as asked for on the command line."""

    devices: int | None = None
    """Devices to use on this host. By default all accelerators; on a CPU one a core, or the next smaller number that
    divides the environments evenly (one if there are other hosts, which may share the cores)."""
    coordinator: str | None = None
    """For several hosts: address of host 0, as in 10.0.0.1:1234. Found by itself under SLURM, Open MPI, Kubernetes."""
    num_hosts: int | None = None
    """How many processes take part."""
    host_id: int | None = None
    """Which of them this is, from 0; host 0 writes and prints."""

    @property
    def several(self) -> bool:
        """Whether there are other hosts."""
        return self.coordinator is not None or in_cluster(dict(os.environ))

    def check(self) -> None:
        """Fail unless they make sense together."""
        if self.devices is not None and self.devices < 1:
            raise AtlasError(f"--devices {self.devices} is not allowed: at least 1 is needed")
        given = (self.coordinator, self.num_hosts, self.host_id)
        if any(x is not None for x in given) and None in given:
            raise AtlasError("--coordinator, --num-hosts and --host-id belong together: give all three or none")
        if self.coordinator is not None:
            name, _, port = self.coordinator.rpartition(":")
            if not name or not port.isdigit():
                raise AtlasError(f"--coordinator {self.coordinator} is not allowed: ADDRESS:PORT is needed")
        if self.num_hosts is not None and self.host_id is not None and not 0 <= self.host_id < self.num_hosts:
            raise AtlasError(f"--host-id {self.host_id} is not allowed: 0 to {self.num_hosts - 1} with --num-hosts")


def _require_reachable(coordinator: str) -> None:
    """Whether other hosts can reach an address that only host 0 listens on."""
    name = coordinator.rpartition(":")[0].strip("[]")
    try:
        found = {ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except (OSError, ValueError):
        raise AtlasError(f"--coordinator {coordinator}: {name} has no address that is known here") from None
    if all(address.is_loopback for address in found) and name != "localhost" and name not in map(str, found):
        raise AtlasError(
            f"--coordinator {coordinator}: on this host {name} means {min(map(str, found))}, where no other host can "
            "reach it (see /etc/hosts); give the address that the others use"
        )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    with suppress(OSError, TypeError):
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1].strip()  # type: ignore[index]
    return platform.processor() or platform.machine()


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def in_cluster(environment: dict[str, str]) -> bool:
    """Whether this process was started as one of several, by a launcher that JAX can ask, such as SLURM."""
    counts = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    several = any(environment.get(name, "1") not in ("", "0", "1") for name in counts)
    in_pod = "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment
    return several or in_pod or "JAX_COORDINATOR_ADDRESS" in environment


@dataclass
class Team:
    """The processes of a run. With one of them, everything here is trivial."""

    number: int = 0
    size: int = 1
    client: Any = None
    """The client of JAX's coordinator."""
    reporter: Any = None
    """Says why if JAX aborts this process."""
    rounds: int = 0
    """How often values were gathered so far."""

    @property
    def is_leader(self) -> bool:
        return self.number == 0

    def all_gather(self, value: Any) -> list[Any]:
        """The plain values that the processes pass, in their order. A collective: all must call it equally often.

        Fails where another process has failed.
        """
        if self.size == 1:
            return [value]
        self._post({"value": value})
        self.rounds += 1
        keys = [f"atlas/{self.rounds}/{number}" for number in range(self.size)]
        said = [json.loads(self.client.blocking_key_value_get(key, FOREVER)) for key in keys]
        if self.rounds > 2:  # all have answered the round before this one, so have read the one before that
            self.client.key_value_delete(f"atlas/{self.rounds - 2}/{self.number}")
        for number, one in enumerate(said):
            if "error" in one:
                raise AtlasError(self.stops_too(f"host {number} stopped: {one['error']}"))
        return [one["value"] for one in said]

    def barrier(self) -> None:
        """Wait until all processes are here."""
        self.all_gather(None)

    def abort(self, why: str) -> None:
        """Make the others fail when they next gather values."""
        self._post({"error": why})

    def _post(self, answer: dict[str, Any]) -> None:
        self.client.key_value_set(f"atlas/{self.rounds + 1}/{self.number}", json.dumps(answer))

    def stops_too(self, why: str) -> str:
        """The message for the user on the hosts that stop because another did."""
        return (
            f"{why}, so host {self.number} stops, too; `atlas resume` goes on from the last checkpoint, on as many "
            "hosts as there are"
        )

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Leave together; a process that fails tells the others why."""
        if error is None:
            self.barrier()
        elif self.size > 1:
            import jax

            with suppress(jax.errors.JaxRuntimeError):
                self.abort(first_line(error))
            if isinstance(error, jax.errors.JaxRuntimeError):
                time.sleep(LOST)  # perhaps an exchange failed because a process is gone: then JAX ends this one, too
                why = f"devices failed, perhaps because another host is gone ({first_line(error)})"
                raise AtlasError(self.stops_too(why)) from error


def join(hosts: Hosts) -> Team:
    """Find the other processes, if there are any. Must come before anything is computed."""
    hosts.check()
    if hosts.several:
        reporter = AbortReporter()  # before JAX is imported, which warns of processes that are started later
    if hosts.coordinator is not None and hosts.host_id == 0:
        _require_reachable(hosts.coordinator)
    import jax

    settings: Any = jax.config
    # More than one on a CPU must be asked for before JAX starts.
    if hosts.devices is not None:
        settings.update("jax_num_cpu_devices", hosts.devices)
    elif not hosts.several and settings.jax_num_cpu_devices < 0 and CPU_DEVICES not in os.environ.get("XLA_FLAGS", ""):
        with suppress(RuntimeError):  # it has started already
            settings.update("jax_num_cpu_devices", cores())
    if not hosts.several:
        return Team()
    settings.update("jax_enable_preemption_service", False)  # signals are the run's business
    try:
        jax.distributed.initialize(
            hosts.coordinator,
            hosts.num_hosts,
            hosts.host_id,
            coordinator_bind_address=hosts.coordinator,  # else it would listen on all interfaces
            initialization_timeout=PATIENCE,
            heartbeat_timeout_seconds=LOST,
            shutdown_timeout_seconds=30,
        )
    except Exception as error:
        raise AtlasError(f"the hosts did not find each other: {first_line(error)}") from error
    from jax._src import distributed  # JAX has no public name for its key-value store

    team = Team(jax.process_index(), jax.process_count(), distributed.global_state.client, reporter)
    reason = "another host is gone, or some other process has connected to the coordinator in its place"
    reporter.set_message(f"atlas: {team.stops_too(reason)}")
    return team


class AbortReporter:
    """A small process that prints a message if this one is aborted.

    JAX ends a process that has lost another with SIGABRT, from a thread of its own: no Python runs in between, and the
    callback that JAX has for this cannot be called from Python (`std::bad_cast`). But Python's fault handler writes
    what happened to a file at once, whatever thread it happens in.
    """

    PROGRAM = """
import sys
sentence, _, fault = sys.stdin.buffer.read().partition(b"\\n")
if b": Aborted" in fault:
    sys.stderr.write(sentence.decode() + "\\n")
"""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", self.PROGRAM]
        # In a session of its own, or Ctrl-C would reach it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def set_message(self, sentence: str) -> None:
        """Set what is printed."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{sentence}\n".encode())
        self.process.stdin.flush()
        faulthandler.enable(self.process.stdin, all_threads=False)


def first_line(error: BaseException) -> str:
    """The beginning of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
