"""Teachers: which problems to play next. Their settings, what these mean for everybody else, and the table.

A teacher is a file in this folder with `init`, `decide`, `propose` and `observe` (`atlas.types.Teacher`), its settings,
which can be read without JAX, and its row in TEACHERS. Problems are opaque pytrees to all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from atlas import plugins
from atlas.errors import AtlasError
from atlas.plugins import Table
from atlas.settings import Settings, from_plain, require, setting

if TYPE_CHECKING:
    from atlas.types import Teacher
    from atlas.ued.supply import Supply


@dataclass(frozen=True, kw_only=True)
class EditConfig(Settings):
    """How children are made from replayed problems."""

    section: ClassVar[str] = "teacher.edits"
    least: int = setting(7, at_least=1)
    """Fewest edits a child."""
    most: int = setting(10, at_least=1, at_most=64)
    """Most edits a child; the number is uniform between the two."""
    level: bool = True
    """Edit levels."""
    task: bool = True
    """Edit tasks."""
    hindsight: bool = True
    """Start from partial progress, as the first edit."""
    more: tuple[str, ...] = setting((), one_of=partial(plugins.names, "edits"))
    """Edits that other packages bring, by name: made as often as each of ours."""

    def check(self) -> None:
        require(self.least <= self.most, self.key("least"), self.least, f"at most {self.key('most')} = {self.most}")
        some = self.level or self.task or bool(self.more)
        require(some, self.key("level"), self.level, "true is needed where teacher.edits.task is false")


@dataclass(frozen=True, kw_only=True)
class BufferConfig(Settings):
    """The problems a teacher remembers and how it samples them again."""

    section: ClassVar[str] = "teacher.buffer"
    capacity: int = setting(50_000, at_least=1)
    """How many problems the buffer keeps."""
    min_fill: float = setting(0.5, at_least=0.0, at_most=1.0)
    """Replay starts once this share of the buffer is full."""
    prioritisation: Literal["rank", "proportional", "topk"] = "rank"
    """How scores become probabilities."""
    temperature: float = setting(1.0, above=0.0)
    """Beta: P_score is proportional to the weight to the power 1 / beta."""
    top: int = setting(1_000, at_least=1)
    """How many of the best are drawn from, uniformly, with `topk`."""
    staleness: float = setting(0.1, at_least=0.0, at_most=1.0)
    """Rho: the share of probability that goes to problems not seen for long."""
    replacement: bool = True
    """Draw a batch with replacement, as the authors do."""
    deduplicate: bool = False
    """Keep no two problems of equal content."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that others need to know of a teacher: the contract between its settings and the rest."""

    title: str
    """As papers call it."""
    num_train: int
    """Environments in an iteration that trains."""
    num_eval: int | None = None
    """Environments in an iteration that only scores its problems; None: every iteration trains."""
    pool: int = 1
    """Problems an environment takes in turn; those of one environment stand together in a proposal."""
    carry: bool = False
    """Whether episodes that the end of a rollout cuts go on in the next one."""
    score: str | None = None
    """The score that it judges problems by, which needs finished episodes; None: it does not judge."""
    buffer: BufferConfig | None = None
    """The memory of problems; None: it remembers none."""
    edits: EditConfig | None = None
    """How it edits problems; None: it does not."""

    @property
    def max_edits(self) -> int:
        """Room for so many edits in a lineage."""
        return self.edits.most if self.edits else 1


@dataclass(frozen=True, kw_only=True)
class TeacherConfig(Settings):
    """The settings of a teacher. Each declares its `name` as a Literal, by which files choose among the TEACHERS."""

    section: ClassVar[str] = "teacher"
    name: str
    """Which teacher."""

    @classmethod
    def variants(cls) -> dict[str, type[Settings]]:
        return {name: row.settings for name, row in TEACHERS.items()}

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        """What the settings mean where `num_envs` environments train; `minimal`: only the smallest problems are
        sampled."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class DRConfig(TeacherConfig):
    """Domain randomisation: always new problems."""

    name: Literal["dr"] = "dr"
    """Which teacher."""
    pool: int = setting(4, at_least=1)
    """Problems an environment takes in turn within one rollout, the next whenever an episode ends."""
    carry: bool = False
    """Continue cut episodes in the next rollout (the authors' way) instead of starting each from reset."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(title="DR", num_train=num_envs, pool=self.pool, carry=self.carry)


SCORE_NAMES: Final = ("maxmc", "pvl", "l1", "learnability", "mna", "constant")
"""Our own; `atlas.ued.scores` has the functions."""


def score_names() -> list[str]:
    """All that a teacher may judge by."""
    return [*SCORE_NAMES, *plugins.names("scores")]


@dataclass(frozen=True, kw_only=True)
class PLRConfig(TeacherConfig):
    """Prioritised replay of past problems; robust unless it trains on new ones too."""

    name: Literal["plr"] = "plr"
    """Which teacher."""
    train_on_new: bool = False
    """Train on new problems as well (plain PLR). Off: PLR⊥, which only scores them."""
    replay_prob: float = setting(0.5, at_least=0.0, at_most=1.0)
    """Probability of a replay iteration once the buffer is filled enough."""
    num_eval: int | None = setting(None, at_least=1)
    """Problems in a batch that is only scored; as many as environments if not set."""
    score: str = setting("maxmc", one_of=score_names)
    """What makes a problem worth replaying: maxmc, pvl, l1, learnability, mna, constant, or one that is installed."""
    buffer: BufferConfig = field(default_factory=BufferConfig)
    """The memory."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(
            title="PLR" if self.train_on_new else "PLR⊥",
            num_train=num_envs,
            num_eval=None if self.train_on_new else self.num_eval or num_envs,
            score=self.score,
            buffer=self.buffer,
        )


@dataclass(frozen=True, kw_only=True)
class ACCELConfig(PLRConfig):
    """PLR⊥ that also edits what it has just replayed."""

    name: Literal["accel"] = "accel"  # type: ignore[assignment]
    """Which teacher."""
    replay_prob: float = setting(0.9, at_least=0.0, at_most=1.0)
    """Probability of a replay iteration once the buffer is filled enough."""
    edits: EditConfig = field(default_factory=EditConfig)
    """How children are made."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return replace(super().plan(num_envs, minimal), title="ACCEL-0" if minimal else "ACCEL", edits=self.edits)


class Row(NamedTuple):
    """A teacher of the table."""

    settings: type[TeacherConfig]
    teacher: str | Callable[..., Any]
    """From its settings and a `Supply` to a `Teacher`; or `module:name` of that, imported when it is needed."""


def _check(row: Any) -> None:
    plugins.require_kind(row, Row, "a Row (atlas.ued) of settings and teacher")


TEACHERS: Table[Row] = Table(
    "teachers",
    {
        "dr": Row(DRConfig, "atlas.ued.dr:DR"),
        "plr": Row(PLRConfig, "atlas.ued.plr:PLR"),
        "accel": Row(ACCELConfig, "atlas.ued.accel:ACCEL"),
    },
    _check,
)
"""By the name in their settings."""


def absent(name: str, plain: dict[str, Any], plan: dict[str, Any], sentence: str) -> Row:
    """A row for a teacher that was passed by value in another process: its settings and its plan can be read, as a run
    has kept them, and whoever needs the teacher itself gets the sentence."""
    nested = {"buffer": BufferConfig, "edits": EditConfig}
    told = {key.name: plan[key.name] for key in fields(Plan)}
    kept = Plan(**told | {key: from_plain(kind, told[key]) for key, kind in nested.items() if told[key] is not None})
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}
    known = [(key, type(value), field(default=value)) for key, value in values.items() if key != "name"]
    kind = make_dataclass(
        "Absent",
        [("name", str, field(default=name)), *known],
        bases=(TeacherConfig,),
        namespace={"plan": lambda self, num_envs, minimal=False: kept},
        frozen=True,
        kw_only=True,
    )

    def fail(*_: Any) -> Any:
        raise AtlasError(sentence)

    return Row(kind, fail)


def teacher_of(settings: TeacherConfig, supply: "Supply") -> "Teacher":
    """The teacher that settings describe."""
    row = TEACHERS[settings.name]
    make: Callable[..., Teacher] = resolve_name(row.teacher) if isinstance(row.teacher, str) else row.teacher
    return make(settings, supply)
