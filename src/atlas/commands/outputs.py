"""Checks before work begins: can the output be written?"""

import tempfile
from pathlib import Path

from atlas.errors import AtlasError, listed
from atlas.runs.hosts import machine_memory


def require_file(path: Path | None, *suffixes: str) -> None:
    """Fail unless a file of this name can be written; with suffixes, unless its name ends in one of them."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise AtlasError(f"{path}: a name that ends in {listed(list(suffixes))} is needed")
    if path.is_dir():
        raise AtlasError(f"{path}: is a folder, and a file is to be written")
    _require_place(path, path.absolute().parent)


def require_folder(path: Path | None) -> None:
    """Fail unless files can be written into a folder of this name, which is made if it is not there."""
    if path is not None:
        _require_place(path, path.absolute())


def require_film(path: Path | None) -> None:
    """Fail unless a film of this name can be made and written."""
    if path is not None:
        from atlas.show.media import require_film as can_be_made

        can_be_made(path)
        require_file(path)


def require_positive(**numbers: float | None) -> None:
    """Fail unless all numbers that are given, called as their flags are, lie above 0."""
    for name, number in numbers.items():
        if number is not None and not 0 < number < float("inf"):
            raise AtlasError(f"--{name.replace('_', '-')} {number} is not allowed: more than 0 is needed")


def require_workers(workers: int) -> None:
    """Fail unless so many processes can be started."""
    if not 0 <= workers <= 1024:
        raise AtlasError(f"--workers {workers} is not allowed: from 1 to 1024, or 0 to take one a core")


def _require_place(path: Path, folder: Path) -> None:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return
    except OSError as error:
        raise AtlasError(
            f"{path}: cannot write to {there}: {(error.strerror or 'it cannot be used').lower()}"
        ) from None


def suffix_of(path: Path, *suffixes: str) -> str:
    """The suffix of an output that may be a file or a folder (which has none)."""
    if path.suffix and path.suffix.lower() not in suffixes:
        raise AtlasError(f"{path}: a name that ends in {listed(list(suffixes))}, or a folder, is needed")
    (require_file if path.suffix else require_folder)(path)
    return path.suffix.lower()


def require_memory(needs: dict[str, int]) -> None:
    """Fail if what is needed, by what it is needed for, is more than this machine has."""
    need, have = sum(needs.values()), machine_memory()
    if need > have:
        parts = ", ".join(f"{size / 1e9:,.1f} GB for {words}" for words, size in needs.items())
        raise AtlasError(
            f"at least {need / 1e9:,.1f} GB of memory are needed, and there are {have / 1e9:,.1f} GB: {parts}"
        )


MOST_DRAWN = 1_000_000
"""Problems drawn at once."""


def require_many(number: int, flag: str) -> None:
    """Fail unless so many problems can be drawn at once."""
    if not 1 <= number <= MOST_DRAWN:
        raise AtlasError(f"{flag} {number} is not allowed: from 1 to {MOST_DRAWN:,} problems are drawn at once")
