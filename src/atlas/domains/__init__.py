"""The domains: worlds that tasks are carried out in. One row each; nothing is imported before it is used."""

import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atlas.errors import AtlasError
from atlas.plugins import Table, require_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax import Array
    from jaxtyping import Bool

    from atlas.settings import DomainSettings
    from atlas.types import Domain, Problem, Surface
    from atlas.vocabulary import Vocabulary


@dataclass(frozen=True)
class DomainRow:
    """Where the parts of a domain are defined, each as `module:name`."""

    settings: str
    """A subclass of `DomainSettings`, importable without JAX."""
    domain: str
    """A callable from settings to a `Domain`: what training needs."""
    screen: str
    """A callable from settings to a cheap check for solvability: jittable, from a batch of problems with flat tasks to
    `bool[batch]` (`domains.shared.batch_check` makes one of a check of one problem)."""
    vocabulary: str
    """Its `Vocabulary`, importable without JAX."""
    surface: str
    """A callable without arguments that gives a `Surface`: what people need."""
    presets: str
    """`dict[str, Preset]`: experiments with a name."""
    sets: str = ""
    """A tuple of named sets (`atlas.evaluation.sets`); the first is where a problem's bare name is looked up."""
    bands: str = ""
    """`dict[str, dict[int, tuple[int, int]]]`: words for few or many objects: least and most, by value of the
    stratum."""
    foreign: str = ""
    """A module that reads other people's files; `atlas.domains.minigrid.authors` is an example."""
    title: str = ""
    """Its name in Gymnasium's ids, as in `atlas/Minigrid-v0`; where there is none, the name with a capital."""


def _check(row: Any) -> None:
    """Whether an installed domain can be used at all: what every command needs of it."""
    require_kind(row, DomainRow, "a DomainRow (atlas.domains)")
    for place in (row.settings, row.vocabulary, row.presets):
        find(place)


DOMAINS: Table[DomainRow] = Table(
    "domains",
    {
        "minigrid": DomainRow(
            settings="atlas.domains.minigrid.settings:MinigridConfig",
            domain="atlas.domains.minigrid.domain:Minigrid",
            screen="atlas.domains.minigrid.solver.relaxed:screen",
            vocabulary="atlas.domains.minigrid.alphabet:VOCABULARY",
            surface="atlas.domains.minigrid.surface:MinigridSurface",
            presets="atlas.domains.minigrid.presets:PRESETS",
            sets="atlas.domains.minigrid.sets:SETS",
            bands="atlas.domains.minigrid.sets:OBJECT_BANDS",
            foreign="atlas.domains.minigrid.authors",
            title="Minigrid",
        ),
        "letterworld": DomainRow(
            settings="atlas.domains.letterworld.settings:LetterWorldConfig",
            domain="atlas.domains.letterworld.domain:LetterWorld",
            screen="atlas.domains.letterworld.solver:screen",
            vocabulary="atlas.domains.letterworld.alphabet:VOCABULARY",
            surface="atlas.domains.letterworld.surface:LetterWorldSurface",
            presets="atlas.domains.letterworld.presets:PRESETS",
            sets="atlas.domains.letterworld.sets:SETS",
            title="LetterWorld",
        ),
    },
    _check,
)
"""Every domain by name; the first is the default."""


def find(place: str) -> Any:
    """What `module:name` names, or a whole module."""
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def known_domain(name: str | None) -> str:
    """The name of a domain, the default one if none is given; an error if there is none of that name."""
    if name is not None and name not in DOMAINS:
        raise AtlasError(f"there is no domain '{name}'; there are {', '.join(DOMAINS)}")
    return name or default_name()


def settings_class(name: str) -> "type[DomainSettings]":
    """The settings of a domain."""
    return find(DOMAINS[name].settings)


def default_name() -> str:
    """The domain that is meant where none is named."""
    return next(iter(DOMAINS))


def default_settings() -> "DomainSettings":
    """The default domain with its default settings."""
    return settings_class(default_name())()


def vocabulary_of(name: str) -> "Vocabulary":
    """What the propositions of a domain mean."""
    return find(DOMAINS[name].vocabulary)


def domain_of(settings: "DomainSettings") -> "Domain":
    """The domain that some settings describe."""
    return find(DOMAINS[settings.name].domain)(settings)


def screen_of(settings: "DomainSettings") -> "Callable[[Problem], Bool[Array, 'batch']]":
    """The cheap check for solvability, for the levels that some settings describe."""
    return find(DOMAINS[settings.name].screen)(settings)


def name_for(subject: Any) -> str:
    """The domain that a problem or a level belongs to."""
    return getattr(subject, "level", subject).domain


def domain_for(subject: Any) -> "Domain":
    """The domain of a problem or a level with default settings: it can play levels of any size."""
    return domain_of(settings_class(name_for(subject))())


def surface_for(subject: Any) -> "Surface":
    """The surface of the domain that a problem or a level belongs to."""
    return surface_of(name_for(subject))


@functools.cache
def surface_of(name: str) -> "Surface":
    """What people need of a domain."""
    return find(DOMAINS[name].surface)()
