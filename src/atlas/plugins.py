"""Members of our tables that come from outside: installed with other packages, or passed to `atlas.train` as values.

A package names them in its metadata, as entry points of the groups `atlas.teachers`, `atlas.scores`, `atlas.edits`,
`atlas.domains` and `atlas.presets`. Nothing is looked for before a table is asked for a name that is not its own, and
nothing is imported before it is needed. What cannot be imported is skipped with a note.
"""

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from atlas.errors import AtlasError, listed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Member = TypeVar("Member")
KINDS: Final = {"teachers": "teacher", "scores": "score", "edits": "edit", "domains": "domain", "presets": "preset"}
"""The kinds of plug-in: the name of the table, and the word for one member."""
_given: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
_loaded: dict[tuple[str, str], Any] = {}


class PluginWarning(UserWarning):
    """A member from outside that cannot be used, and is left out."""


class Absent:
    """Stands for a value that was passed to a run in another process. It has a name, and cannot be used."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence


@functools.cache
def installed(kind: str) -> Mapping[str, "EntryPoint"]:
    """Entry points of other packages, by name; not imported yet."""
    found: dict[str, "EntryPoint"] = {}
    for entry in _entry_points().select(group=f"atlas.{kind}"):
        if entry.name in found:
            _skip(kind, entry, f"{_source(found[entry.name])} brings one of the same name")
        else:
            found[entry.name] = entry
    return found


@functools.cache
def _entry_points() -> Any:
    """The entry points of all packages: reading their metadata takes a moment, so it is done once."""
    from importlib.metadata import entry_points

    return entry_points()


def refresh() -> None:
    """Look again for what is installed: in a notebook, after a package was added."""
    _entry_points.cache_clear()
    installed.cache_clear()
    _loaded.clear()


def names(kind: str) -> list[str]:
    """The names of all members from outside; nothing is imported."""
    return list(dict.fromkeys([*_given[kind], *installed(kind)]))


def in_use(kind: str) -> bool:
    """Whether a member from outside was asked for in this process; nothing is looked for."""
    return bool(_given[kind]) or any(one == kind and value is not None for (one, _), value in _loaded.items())


def give(kind: str, name: str, value: Any, own: Mapping[str, Any]) -> None:
    """Add a member by value, for as long as the process lives; one of the same name that was given before goes."""
    if name in own:
        raise AtlasError(f"'{name}' is the name of a {KINDS[kind]} of ATLAS: call yours something else")
    _given[kind][name] = value


def defined_at(value: Any) -> str:
    """Where a value was defined: `Echo in mymodule`."""
    source = value if hasattr(value, "__qualname__") else getattr(value, "apply", type(value))
    return f"{getattr(source, '__qualname__', type(source).__qualname__)} in {source.__module__}"


class Table(MutableMapping[str, Member], Generic[Member]):
    """Members by name: our own, then those from outside. Our own are found without a look at other packages."""

    def __init__(self, kind: str, own: dict[str, Member], check: Callable[[Any], None]) -> None:
        self.kind, self.own, self.check = kind, own, check
        """`check` fails with a sentence if an installed member is not what it should be."""

    def names(self) -> list[str]:
        """All names; nothing is imported, so some may turn out to be unusable."""
        return [*self.own, *(name for name in names(self.kind) if name not in self.own)]

    def __getitem__(self, name: str) -> Member:
        if name in self.own:
            return self.own[name]
        if name in _given[self.kind]:
            value = _given[self.kind][name]
            if isinstance(value, Absent):
                raise AtlasError(value.sentence)
            return value
        member = self._load(name)
        if member is None:
            raise KeyError(name)
        return member

    def _load(self, name: str) -> Member | None:
        """An installed member, imported; None if there is none, or it cannot be used."""
        if (self.kind, name) not in _loaded:
            _loaded[self.kind, name] = None  # should it ask for itself while it is imported
            entry = installed(self.kind).get(name)
            if entry is not None:
                try:
                    value = entry.load()
                    self.check(value)
                    _loaded[self.kind, name] = value
                except (Exception, SystemExit) as error:
                    first = (str(error).strip().splitlines() or [""])[0]
                    reason = first if isinstance(error, AtlasError) else f"{type(error).__name__}: {first}"
                    _skip(self.kind, entry, reason)
        return _loaded[self.kind, name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        for name in names(self.kind):
            if name not in self.own and (name in _given[self.kind] or self._load(name) is not None):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        if name in self.own or name in _given[self.kind]:
            return True
        return isinstance(name, str) and self._load(name) is not None

    def __setitem__(self, name: str, member: Member) -> None:
        self.own[name] = member

    def __delitem__(self, name: str) -> None:
        del self.own[name]


def require_kind(value: Any, kind: Any, words: str) -> None:
    """Fail unless an entry point names what its group needs."""
    if not isinstance(value, kind):
        raise AtlasError(f"{words} is needed, and {type(value).__name__} was found")


def _skip(kind: str, entry: "EntryPoint", reason: str) -> None:
    sentence = f"the {KINDS[kind]} '{entry.name}' of {_source(entry)} is left out: {reason} ({entry.value})"
    warnings.warn(sentence, PluginWarning, stacklevel=2)


def _source(entry: "EntryPoint") -> str:
    return f"the package {entry.dist.name}" if entry.dist is not None else "another package"


def summary() -> str:
    """The installed plug-ins in one sentence; empty if there are none."""
    found = {kind: list(installed(kind)) for kind in KINDS}
    parts = [f"{KINDS[kind] if len(some) == 1 else kind} {listed(some, 'and')}" for kind, some in found.items() if some]
    return f"Installed beside ATLAS: {'; '.join(parts)}." if parts else ""
