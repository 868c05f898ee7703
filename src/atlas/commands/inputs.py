"""The problem that a command works on: a problem of a file or set, or one that is drawn."""

from typing import TYPE_CHECKING, Any, Final

import tyro

from atlas.errors import AtlasError

if TYPE_CHECKING:
    from atlas.types import NamedProblem

DOMAIN: Final = tyro.conf.arg(metavar="minigrid|letterworld")
"""How help shows the option `--domain`."""


def subject(file: str | None, name: str | None, index: int | None, domain: str | None, seed: int) -> Any:
    """The problem (or level) of a file or set that is meant; without a file, one that is drawn from a domain."""
    if file is None:
        if name is not None or index is not None:
            raise AtlasError("--name and --index choose among the problems of a set: name the set before them")
        return drawn(domain, seed)
    if domain is not None:
        raise AtlasError(f"--domain is for a problem that is drawn: {file} says itself of which domain it is")
    from atlas.runs.problem_files import choose

    return choose(file, name, index)


def drawn(domain: str | None, seed: int) -> "NamedProblem":
    """A problem that the cheap check calls solvable, its task made of what its level holds."""
    from atlas.api import sample
    from atlas.programs import keep_programs
    from atlas.settings import require_seed

    require_seed(seed)
    keep_programs()
    return sample(1, "level", "sequential", seed, solvable=True, domain=domain)[0]
