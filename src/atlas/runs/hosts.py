"""Where a process stands among those that train together, as told on the command line or by a cluster. No JAX here."""

import os
from dataclasses import dataclass

from atlas.errors import AtlasError


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
