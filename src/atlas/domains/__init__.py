"""The domains: worlds that tasks are carried out in. One row each; nothing is imported before it is used."""

import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atlas.settings import DomainSettings

if TYPE_CHECKING:
    from atlas.types import Domain, Surface


@dataclass(frozen=True)
class DomainRow:
    """Where the parts of a domain are defined, each as `module:name`."""

    settings: str
    """A subclass of `DomainSettings`, importable without JAX."""
    domain: str
    """Called with the settings it gives a `Domain`: what training needs."""
    surface: str
    """Called with nothing it gives a `Surface`: what people need."""
    presets: str
    """`dict[str, Preset]`: experiments with a name."""


DOMAINS: dict[str, DomainRow] = {
    "minigrid": DomainRow(
        settings="atlas.domains.minigrid.settings:MinigridConfig",
        domain="atlas.domains.minigrid.domain:Minigrid",
        surface="atlas.domains.minigrid.surface:MinigridSurface",
        presets="atlas.domains.minigrid.presets:PRESETS",
    ),
}
"""Every domain by name; the first is the default."""


def find(place: str) -> Any:
    """What `module:name` says."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def settings_class(name: str) -> type[DomainSettings]:
    """The settings of a domain."""
    return find(DOMAINS[name].settings)


def default_settings() -> DomainSettings:
    """The default domain with its default settings."""
    return settings_class(next(iter(DOMAINS)))()


def domain_of(settings: DomainSettings) -> "Domain":
    """The domain that some settings describe."""
    return find(DOMAINS[settings.name].domain)(settings)


def surface_for(subject: Any) -> "Surface":
    """The surface of the domain that a problem or a level belongs to."""
    return surface_of(getattr(subject, "level", subject).domain)


@functools.cache
def surface_of(name: str) -> "Surface":
    """What people need of a domain."""
    return find(DOMAINS[name].surface)()
