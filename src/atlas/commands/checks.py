"""Checks of arguments before work begins."""

from pathlib import Path

from atlas.documents import require_file, require_folder
from atlas.errors import AtlasError, listed
from atlas.runs.hosts import machine_memory


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
