"""The small machinery under `config`: checked dataclasses, and their text form (YAML).

Kept apart so that `config.py` holds nothing but settings.
"""

import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

import yaml

from atlas.documents import LARGEST, read_plain
from atlas.errors import AtlasError, nearest


class ConfigError(AtlasError):
    """A setting that is unknown, of the wrong type, out of range or at odds with another."""


def setting(
    default: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    one_of: Callable[[], Collection[str]] | None = None,
) -> Any:
    """A dataclass field with bounds. A bound on a tuple is a bound on each of its elements.

    `one_of` gives the names that are allowed, where other packages may add some; the default is not looked up.
    """
    bounds = {"at_least": at_least, "at_most": at_most, "above": above, "one_of": one_of}
    return dataclasses.field(default=default, metadata=bounds)


def require(condition: bool, key: str, value: Any, allowed: str) -> None:
    """Fail with a sentence unless the condition holds."""
    if not condition:
        raise ConfigError(f"{key} = {show(value)} is not allowed: {allowed}")


def show(value: Any) -> str:
    """A value as a user would write it."""
    if isinstance(value, tuple | list):
        text = f"[{', '.join(map(show, value))}]"
    elif value is None or isinstance(value, bool):
        text = {None: "none", True: "true", False: "false"}[value]
    else:
        text = str(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


_hints: Callable[[type], dict[str, Any]] = functools.cache(typing.get_type_hints)
_fields: Callable[[Any], dict[str, Any]] = functools.cache(
    lambda cls: {field.name: field for field in dataclasses.fields(cls)}
)
SEEDS: Final = 1 << 32
"""Seeds are smaller: of a larger one only the last 32 bits would count."""


def require_seed(seed: int) -> None:
    """Fail with a sentence unless random numbers can be drawn from the seed."""
    require(0 <= seed < SEEDS, "seed", seed, f"a whole number from 0 to {SEEDS - 1} is needed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """A frozen dataclass that checks itself when it is made."""

    section: ClassVar[str] = ""
    """Where it stands in a config, for messages: `teacher.buffer`."""
    may_be_nameless: ClassVar[bool] = False
    """A section without `name` means the first variant."""

    def __post_init__(self) -> None:
        self.verify({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
        self.check()

    @classmethod
    def verify(cls, values: dict[str, Any]) -> None:
        """Fail unless each of these values has the type and lies in the range that its setting needs."""
        hints, fields = _hints(cls), _fields(cls)
        for name, value in values.items():
            key, hint = cls.key(name), hints[name]
            if not _fits(value, hint):
                require(False, key, value, f"{describe(hint)} is needed")
            _require_bounds(key, value, fields[name].metadata)
            known = fields[name].metadata.get("one_of")
            if known is not None and value != fields[name].default:
                for one in value if isinstance(value, tuple) else (value,):
                    require(
                        one in known(),
                        key,
                        one,
                        f"one of {', '.join(known()) or 'those installed (none is)'} is needed",
                    )

    @classmethod
    def key(cls, name: str) -> str:
        """The full name of one of its settings."""
        return f"{cls.section}.{name}" if cls.section else name

    def check(self) -> None:
        """What must hold between fields."""

    @classmethod
    def variants(cls) -> "dict[str, type[Settings]]":
        """The classes that a section of this type may have, by its `name`; empty: only this one."""
        return {}


STEP_LIMIT = 512
"""Steps that an episode may take where nothing else is said."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DomainSettings(Settings):
    """What the settings of every domain have: its `name` (a Literal) and the steps after which an episode is cut."""

    section: ClassVar[str] = "domain"
    may_be_nameless: ClassVar[bool] = True
    if TYPE_CHECKING:  # each domain declares these itself, so that its settings keep their own order in files
        name: str = ""
        step_limit: int = 0

    @classmethod
    def variants(cls) -> dict[str, type[Settings]]:
        from atlas.domains import DOMAINS, settings_class

        return {name: settings_class(name) for name in DOMAINS}


def _fits(value: Any, hint: Any) -> bool:
    if type(value) is hint and hint in (bool, str):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return any(value == allowed and type(value) is type(allowed) for allowed in arguments)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(v, arguments[0]) for v in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if hint in (int, float):
        kinds = int | float if hint is float else int
        return isinstance(value, kinds) and not isinstance(value, bool) and -LARGEST < value < LARGEST  # NaN is not
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def describe(hint: Any) -> str:
    """A type in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(a) for a in arguments)
    if origin is tuple:
        if arguments[1:] == (Ellipsis,):
            return f"a list, each {describe(arguments[0])}"
        return f"a list of {len(arguments)}, each {describe(arguments[0])}"
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text", type(None): "none"}
    return words.get(hint) or f"a section ({getattr(hint, '__name__', hint)})"


_BOUNDS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "at_least": (operator.ge, "at least"),
    "at_most": (operator.le, "at most"),
    "above": (operator.gt, "more than"),
}


def _require_bounds(key: str, value: Any, bounds: Any) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    for name, (holds, words) in _BOUNDS.items():
        if (bound := bounds.get(name)) is None:
            continue
        for number in numbers:
            if isinstance(number, int | float) and not isinstance(number, bool):
                require(holds(number, bound), key, value, f"{words} {bound:.10g} is needed")


Made = TypeVar("Made", bound=Settings)


def to_plain(settings: Settings) -> dict[str, Any]:
    """Nested dicts, lists and scalars: what YAML and JSON can hold."""

    def plain(value: Any) -> Any:
        if isinstance(value, Settings):
            return to_plain(value)
        return [plain(v) for v in value] if isinstance(value, tuple) else value

    return {field.name: plain(getattr(settings, field.name)) for field in dataclasses.fields(settings)}


def flat(plain: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of nested sections by their full names: `student.ppo.gamma`."""
    found: dict[str, Any] = {}
    for key, value in plain.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def differences(before: Settings, after: Settings) -> dict[str, tuple[Any, Any]]:
    """The settings in which two configs differ: full name -> both values, None where there is no such setting."""
    old, new = flat(to_plain(before)), flat(to_plain(after))
    names = [*old, *(name for name in new if name not in old)]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def from_plain(cls: type[Made], plain: Any, where: str = "") -> Made:
    """The inverse of `to_plain`. Missing keys take their defaults; unknown ones are an error."""
    if not isinstance(plain, dict):
        raise ConfigError(f"{where or 'the config'} = {show(plain)} is not allowed: a section with keys is needed")
    hints = _hints(cls)
    prefix = f"{where}." if where else ""
    names = [field.name for field in dataclasses.fields(cls)]
    for key in plain:
        if key not in names:
            raise ConfigError(
                f"{prefix}{key} is not a setting{nearest(str(key), names) or '; known: ' + ', '.join(names)}"
            )
    values = {key: _from_plain_value(hints[key], value, prefix + key) for key, value in plain.items()}
    cls.verify(values)
    return cls(**values)


def changed(settings: Made, plain: Any, where: str = "") -> Made:
    """Settings with some of them changed, nested as `to_plain` has them.

    A section that is given another `name` becomes one of that kind, and keeps what was chosen in it and fits there.
    """
    if not isinstance(plain, dict):
        return from_plain(type(settings), plain, where)
    kind: Any = type(settings)
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    variants, name = kind.variants(), plain.get("name")
    can_be = not variants or name is None or (isinstance(name, str) and name in variants)
    require(can_be, f"{where}.name" if where else "name", name, f"one of {', '.join(variants)} is needed")
    other = variants.get(name)
    if other not in (None, kind):
        usual, known = kind(), {field.name for field in dataclasses.fields(other)} - {"name"}
        values = {name: v for name, v in values.items() if name in known and v != getattr(usual, name)}
        kind = other
    merged = {name: to_plain(value) if isinstance(value, Settings) else value for name, value in values.items()}
    for name, value in plain.items():
        inner = values.get(name)
        where_inner = f"{where}.{name}" if where else str(name)
        merged[name] = to_plain(changed(inner, value, where_inner)) if isinstance(inner, Settings) else value
    return from_plain(kind, merged, where)


def _from_plain_value(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, type) and issubclass(hint, Settings):
        variants = hint.variants()
        if not variants or not isinstance(value, dict):
            return from_plain(hint, value, where)
        name: Any = value.get("name", next(iter(variants)) if hint.may_be_nameless else None)
        require(
            isinstance(name, str) and name in variants, f"{where}.name", name, f"one of {', '.join(variants)} is needed"
        )
        return from_plain(variants[name], value, where)
    if isinstance(value, list):
        return tuple(_from_plain_value(None, v, where) for v in value)
    return value


def dump(settings: Settings) -> str:
    """A config as readable text."""
    return yaml.safe_dump(to_plain(settings), sort_keys=False, default_flow_style=None, width=100)


def load(cls: type[Made], path: Path | str) -> Made:
    """A config from text, with an error that names the file."""
    plain = read_plain(path)
    try:
        return from_plain(cls, plain)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
