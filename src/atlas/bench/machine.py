"""Where the numbers come from: cores, model, versions, and how busy it was before."""

import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """The machine and the versions of what matters, as JSON has it."""
    import jax

    return {
        "processor": _model(),
        "cores": cores(),
        "memory_gb": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "devices": jax.device_count(),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "atlas": version("atlas-ued"),
        "load_before": load(),
    }


def sentence(machine: dict[str, Any]) -> str:
    """The same for a person."""
    busy = machine["load_before"] > 0.3
    warning = " (others are using it: rates are too low)" if busy else ""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; jax {machine['jax']} on "
        f"{machine['backend']}, python {machine['python']}; load before {machine['load_before']:.1f}{warning}"
    )


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """How many processes wanted a core in the last minute, on average."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def _model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> float:
    with suppress(OSError, ValueError, AttributeError):
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    return 0.0
