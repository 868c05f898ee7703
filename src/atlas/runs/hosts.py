"""Several processes, perhaps on several hosts, that train one run together.

Devices exchange numbers through JAX. What the processes have to tell each other beside that (how fast to go, whether
somebody was asked to stop, whether all are still there) goes through JAX's coordinator, so that nobody has to wait
inside a computation. Host 0 leads: it alone keeps the folder, writes and prints.
"""

import atexit
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

import jax
from jax._src import distributed

from atlas.config import Config
from atlas.devices import ALONE, Layout, mesh_of
from atlas.errors import AtlasError
from atlas.settings import dump

# Where a process stands among those that train together, as told on the command line or by a cluster. No JAX here.


@dataclass(frozen=True)
class Hosts:
    """Where this process stands among those that train together, as asked for on the command line."""

    devices: int | None = None
    """Devices to use on this host: all by default on accelerators, one on CPUs (which uses all cores anyway)."""
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

    def prepare(self) -> None:
        """Check them, before JAX is loaded; with several hosts it is told to keep its diagnostics to itself."""
        self.check()
        if self.several:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    def check(self) -> None:
        """Whether they make sense together."""
        if self.devices is not None and self.devices < 1:
            raise AtlasError(f"--devices {self.devices} is not allowed: at least 1 is needed")
        given = (self.coordinator, self.num_hosts, self.host_id)
        if any(x is not None for x in given) and None in given:
            raise AtlasError("--coordinator, --num-hosts and --host-id belong together: give all three or none")
        if self.num_hosts is not None and self.host_id is not None and not 0 <= self.host_id < self.num_hosts:
            raise AtlasError(f"--host-id {self.host_id} is not allowed: 0 to {self.num_hosts - 1} with --num-hosts")


def in_cluster(environment: dict[str, str]) -> bool:
    """Whether this process was started as one of several, by something that JAX knows how to ask."""
    counts = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
    several = any(environment.get(name, "1") not in ("", "0", "1") for name in counts)
    in_pod = "KUBERNETES_SERVICE_HOST" in environment and "JOB_COMPLETION_INDEX" in environment
    return several or in_pod or "JAX_COORDINATOR_ADDRESS" in environment


# Several processes, perhaps on several hosts, that train one run together.
#
# Devices exchange numbers through JAX. What the processes have to tell each other beside that (how fast to go, whether
# somebody was asked to stop, whether all are still there) goes through JAX's coordinator, so that nobody has to wait
# inside a computation. Host 0 leads: it alone keeps the folder, writes and prints.

BEAT: Final = 3.0
"""Seconds between signs of life."""
LOST: Final = 25.0
"""Seconds without one after which a host counts as lost."""
FOREVER: Final = 7 * 24 * 3600 * 1000
"""Milliseconds to wait for an answer: whether the others are alive is watched apart."""
PATIENCE: Final = 120
"""Seconds that hosts wait for each other at the start."""
FAILED: Final = 1


@dataclass
class Team:
    """The processes of a run. With one of them, everything here is trivial."""

    number: int = 0
    size: int = 1
    client: Any = None
    """JAX's coordinator."""
    round: int = 0
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def leads(self) -> bool:
        return self.number == 0

    def everyone(self, mine: Any) -> list[Any]:
        """What each host has to say, as plain values; all must ask equally often."""
        if self.size == 1:
            return [mine]
        self.round += 1
        self.client.key_value_set(f"atlas/said/{self.round}/{self.number}", json.dumps(mine))
        said = [self._wait(f"atlas/said/{self.round}/{number}") for number in range(self.size)]
        if self.round > 2:  # everyone has answered the round before this one, so has read the one before that
            self.client.key_value_delete(f"atlas/said/{self.round - 2}/{self.number}")
        return [json.loads(text) for text in said]

    def _wait(self, key: str) -> str:
        try:
            return str(self.client.blocking_key_value_get(key, FOREVER))
        except Exception as error:
            self.give_up(f"the coordinator on host 0 is gone ({_first_line(error)})")

    def __enter__(self) -> "Team":
        if self.size > 1:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Leave together; who leaves early says why, and does not wait for the others."""
        if self.size == 1:
            return
        if error is None:
            self.everyone("done")
        else:
            if isinstance(error, jax.errors.JaxRuntimeError):  # perhaps because somebody is gone: the watch knows
                time.sleep(LOST + 2 * BEAT)
            self.client.key_value_set(f"atlas/left/{self.number}", _first_line(error))
            atexit.register(os._exit, FAILED)  # before JAX waits for those who will not come
        self.left.set()

    def _watch(self) -> None:
        """Give signs of life, and end this process when another gives none."""
        seen: dict[int, tuple[str, float]] = {}
        count = 0
        while not self.left.wait(BEAT):
            count += 1
            try:
                self.client.key_value_set(f"atlas/alive/{self.number}", str(count), allow_overwrite=True)
                for number in set(range(self.size)) - {self.number}:
                    self._look_after(number, seen)
            except Exception as error:
                if not self.left.is_set():
                    self.give_up(f"the coordinator on host 0 is gone ({_first_line(error)})")

    def _look_after(self, number: int, seen: dict[int, tuple[str, float]]) -> None:
        why = self._read(f"atlas/left/{number}")
        if why is not None:
            self.give_up(f"host {number} stopped: {why}")
        beat = self._read(f"atlas/alive/{number}") or ""
        if number not in seen or seen[number][0] != beat:
            seen[number] = (beat, time.monotonic())
        elif time.monotonic() - seen[number][1] > LOST:
            self.give_up(f"host {number} is gone (no sign of life for {LOST:.0f} s)")

    def _read(self, key: str) -> str | None:
        try:
            return str(self.client.key_value_try_get(key))
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return None
            raise

    def give_up(self, why: str) -> NoReturn:
        """End this process at once, wherever it is: the others cannot be waited for."""
        sentence = (
            f"atlas: {why}, so host {self.number} stops, too; `atlas resume` goes on from the last checkpoint, on as "
            "many hosts as there are\n"
        )
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, sentence.encode())  # no lock that may be held
        os._exit(FAILED)


def join(hosts: Hosts) -> Team:
    """Find the others, if there are any. Must come before anything is computed."""
    settings: Any = jax.config
    if hosts.devices is not None:  # more than one on a CPU must be asked for before JAX starts
        settings.update("jax_num_cpu_devices", hosts.devices)
    if not hosts.several:
        return Team()
    settings.update("jax_enable_preemption_service", False)  # signals are seen to by the run
    team = Team()
    try:
        with _last_word(team):
            jax.distributed.initialize(
                hosts.coordinator,
                hosts.num_hosts,
                hosts.host_id,
                shutdown_timeout_seconds=30,
                initialization_timeout=PATIENCE,
            )
    except Exception as error:
        raise AtlasError(f"the hosts did not find each other: {_first_line(error)}") from error
    team.number, team.size, team.client = jax.process_index(), jax.process_count(), distributed.global_state.client
    return team


@contextmanager
def _last_word(team: Team) -> Iterator[None]:
    """A process that lost its coordinator is ended by JAX, deep inside: say why before that.

    JAX would call whom it is told to; some versions fail in doing so and abort, which is caught here as well.
    """

    def say(*_: Any) -> None:
        team.give_up("host 0, which coordinates, is gone")

    _ON_ABORT.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(say))  # kept: it must outlive this function
    system = ctypes.CDLL(None)
    system.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    system.signal(signal.SIGABRT, ctypes.cast(_ON_ABORT[-1], ctypes.c_void_p))
    library: Any = distributed._jax
    real = library.get_distributed_runtime_client
    library.get_distributed_runtime_client = partial(real, missed_heartbeat_callback=say)
    try:
        yield
    finally:
        library.get_distributed_runtime_client = real


_ON_ABORT: list[Any] = []


def layout(hosts: Hosts) -> Layout:
    """The devices that take part, on all hosts."""
    here = jax.local_devices()
    platform = here[0].platform
    devices = hosts.devices or (1 if platform == "cpu" else len(here))
    if devices > len(here):
        raise AtlasError(f"--devices {devices} is not allowed: this host has {len(here)} ({platform})")
    return ALONE if devices * jax.process_count() == 1 else Layout(mesh_of(devices))


def same_settings(team: Team, config: Config) -> None:
    """Fail unless every host was started with the same settings."""
    said = team.everyone(dump(config))
    for number, text in enumerate(said):
        for mine, theirs in zip(said[0].splitlines(), text.splitlines(), strict=False):
            if mine != theirs:
                raise AtlasError(f"host {number} has other settings than host 0: {theirs.strip()} (not {mine.strip()})")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
