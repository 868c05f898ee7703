"""`atlas info`: what is installed, what it runs on, and what is kept on this machine."""

import json
import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any, Final

import tyro

from atlas import plugins
from atlas.runs.hosts import cores, machine_memory, processor
from atlas.words import plural, size

PACKAGES: Final = ("jax", "jaxlib", "numpy", "optax", "orbax-checkpoint")
SIMD: Final = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")
"""Instructions that make products faster, as Linux names them."""


@dataclass(frozen=True)
class InfoArgs:
    """Print versions, devices, what is kept in the cache and how large it is, and plug-ins: for a report of a problem,
    or to see whether a GPU is found."""

    json: bool = False
    """Print JSON."""


def info_command(argv: list[str]) -> int:
    """Gather, print."""
    args = tyro.cli(InfoArgs, args=argv, prog="atlas info")
    told = gather()
    if args.json:
        print(json.dumps(told))
        return 0
    extras = told["extras"]
    missing = [name for name, there in extras.items() if not there]
    cache, machine = told["cache"], told["machine"]
    kept = [f"{words} {size(one['bytes'])} in {plural(one['files'], 'file')}" for words, one in cache["kept"].items()]
    found = [f"{kind}: {', '.join(names)}" for kind, names in told["plugins"].items() if names]
    rows = {
        "atlas": f"{told['atlas']}, in {told['path']}",
        "python": f"{told['python']}, {told['system']}",
        "packages": ", ".join(f"{name} {number}" for name, number in told["packages"].items()),
        "extras": ", ".join(name for name, there in extras.items() if there) or "none",
        "not installed": f"{', '.join(missing)}: `pip install 'atlas-ued[NAME]'`" if missing else "",
        "devices": ", ".join(told["devices"]),
        "processor": ", ".join([machine["processor"], plural(machine["cores"], "core"), *machine["simd"]]),
        "memory": f"{size(machine['memory'])}, {size(machine['available'])} of it free",
        "cache": f"{cache['path']}: {', '.join(kept) or 'empty'} (it can be removed at any time)",
        "zoo": ", ".join(f"zoo:{name}" for name in told["zoo"]) or "empty",
        "plug-ins": "; ".join(found) or "none",
    }
    for words, value in rows.items():
        if value:
            print(f"{words:<13} {value}")
    return 0


def gather() -> dict[str, Any]:
    """All of it, as plain values."""
    import jax

    import atlas
    from atlas.runs.folder import zoo_names

    return {
        "atlas": atlas.__version__,
        "path": str(Path(atlas.__file__).parent),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: number for name in PACKAGES if (number := _version(name))},
        "extras": extras(),
        "devices": [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()],
        "machine": machine(),
        "cache": cache(),
        "zoo": zoo_names(),
        "plugins": {kind: list(plugins.installed(kind)) for kind in plugins.KINDS},
    }


def extras() -> dict[str, bool]:
    """The extras of this package, and whether all that each asks for is there."""
    names = metadata("atlas-ued").get_all("Provides-Extra") or []
    needs = [line.split(";") for line in requires("atlas-ued") or () if "extra ==" in line]
    found = {}
    for extra in names:
        wanted = [re.split(r"[^\w.-]", need.strip())[0] for need, *more in needs if f"'{extra}'" in _quoted(more)]
        if extra.startswith("cuda"):  # JAX's own extra: its plug-in tells
            wanted = [f"jax-{extra}-plugin"]
        found[extra] = all(one == "atlas-ued" or _version(one) for one in wanted)
    return found


def machine() -> dict[str, Any]:
    """The processor, its cores and instructions, and the memory in bytes."""
    simd, free = [], machine_memory()
    with suppress(OSError, TypeError):
        flags = re.search(r"(?:flags|Features)\s*: (.*)", Path("/proc/cpuinfo").read_text())[1].split()  # type: ignore[index]
        simd = [one for one in SIMD if one in flags]
    with suppress(OSError, TypeError):
        free = 1024 * int(re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text())[1])  # type: ignore[index]
    return {"processor": processor(), "cores": cores(), "simd": simd, "memory": machine_memory(), "available": free}


def cache() -> dict[str, Any]:
    """The folders of the cache, and how much is in each."""
    from atlas.runs.store import cache_folder

    folder = cache_folder()
    words = {"compiled": "compiled code", "programs": "kept programs", "sets": "sets"}
    kept = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else []:
        sizes = [one.stat().st_size for one in (path.rglob("*") if path.is_dir() else [path]) if one.is_file()]
        kept[words.get(path.name, path.name)] = {"files": len(sizes), "bytes": sum(sizes)}
    return {"path": str(folder), "bytes": sum(entry["bytes"] for entry in kept.values()), "kept": kept}


def _quoted(markers: list[str]) -> str:
    return " ".join(markers).replace('"', "'")


def _version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return version(package)
    return ""
