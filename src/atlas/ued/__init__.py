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
    learn: bool = False
    """Make those kinds of edits more often whose children gained in score over their parents."""
    explore: float = setting(0.25, at_least=0.0, at_most=1.0)
    """The share of edits that are made uniformly all the same, where kinds are learnt."""
    screen: bool = False
    """Make several children for each one wanted, and play those that the relaxed check calls solvable."""

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
    echo: bool = False
    """Whether it wants tasks that are read off what was played."""
    prove: int | None = None
    """Whether its score needs plans of the prover: every so many iterations; None: it needs none."""

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


SCORE_NAMES: Final = ("maxmc", "pvl", "l1", "learnability", "mna", "posterior", "oracle", "constant")
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
    """What makes a problem worth replaying: maxmc, pvl, l1, learnability, mna, posterior, oracle, constant, or one that
    is installed."""
    prove_every: int = setting(20, at_least=1)
    """Iterations between two batches of plans from the prover, which only the score `oracle` asks for."""
    buffer: BufferConfig = field(default_factory=BufferConfig)
    """The memory."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(
            title="PLR" if self.train_on_new else "PLR⊥",
            num_train=num_envs,
            num_eval=None if self.train_on_new else self.num_eval or num_envs,
            score=self.score,
            buffer=self.buffer,
            prove=self.prove_every if self.score == "oracle" else None,
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


@dataclass(frozen=True, kw_only=True)
class ScoutConfig(TeacherConfig):
    """Predicts from cheap features which new problems are solved about half of the time, and trains on those."""

    name: Literal["scout"] = "scout"
    """Which teacher."""
    pool: int = setting(4, at_least=1)
    """Problems an environment takes in turn within one rollout."""
    candidates: int = setting(4, at_least=1, at_most=64)
    """Problems that are looked at for each one that is played."""
    uniform: float = setting(1 / 3, at_least=0.0, at_most=1.0)
    """The share of problems that are taken as they come."""
    forget: float = setting(0.98, above=0.0, at_most=1.0)
    """How much of what the predictor knows it keeps from one iteration to the next: the student changes."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(title="Scout", num_train=num_envs, pool=self.pool, score="constant")


@dataclass(frozen=True, kw_only=True)
class SFLConfig(TeacherConfig):
    """Sampling for learnability: now and then many new problems are tried several times, and those with the highest
    p (1 - p) are trained on, mixed with new ones, until the next time."""

    name: Literal["sfl"] = "sfl"
    """Which teacher."""
    every: int = setting(50, at_least=1)
    """Iterations that train between two evaluations."""
    rounds: int = setting(4, at_least=1)
    """Iterations that an evaluation takes."""
    attempts: int = setting(4, at_least=1)
    """Environments that try the same problem."""
    num_eval: int | None = setting(None, at_least=1)
    """Environments in an iteration of an evaluation; as many as train if not set."""
    replay_prob: float = setting(0.5, at_least=0.0, at_most=1.0)
    """The share of training batches that are taken from the problems kept; the others are new."""
    buffer: BufferConfig = field(
        default_factory=lambda: BufferConfig(capacity=256, min_fill=0.0, prioritisation="topk", staleness=0.0)
    )
    """The problems kept."""

    def check(self) -> None:
        if self.num_eval is not None:
            need = f"a multiple of {self.key('attempts')} = {self.attempts}"
            require(self.num_eval % self.attempts == 0, self.key("num_eval"), self.num_eval, need)

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        num_eval = self.num_eval or num_envs
        need = f"a divisor of run.num_envs = {num_envs} where teacher.num_eval is not set"
        require(num_eval % self.attempts == 0, self.key("attempts"), self.attempts, need)
        return Plan(
            title="SFL",
            num_train=num_envs,
            num_eval=num_eval,
            score="learnability",
            buffer=self.buffer,
        )


@dataclass(frozen=True, kw_only=True)
class EchoConfig(TeacherConfig):
    """Reads tasks off what was just played: what came to hold in a level, one thing after the other, is a task that can
    be done in it, and so is a machine up to where the episode took it. Rare propositions count more. No solver is
    asked."""

    name: Literal["echo"] = "echo"
    """Which teacher."""
    replay_prob: float = setting(0.8, at_least=0.0, at_most=1.0)
    """The share of batches that are such problems, and trained on; the others are new, and only listened to."""
    forget: float = setting(0.99, above=0.0, at_most=1.0)
    """How much of the counts that say what is rare is kept from one iteration to the next."""
    buffer: BufferConfig = field(default_factory=lambda: BufferConfig(capacity=4_000, min_fill=0.1))
    """The problems that it has heard."""

    def plan(self, num_envs: int, minimal: bool = False) -> Plan:
        return Plan(
            title="Echo", num_train=num_envs, num_eval=num_envs, score="constant", buffer=self.buffer, echo=True
        )


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
        "scout": Row(ScoutConfig, "atlas.ued.scout:Scout"),
        "sfl": Row(SFLConfig, "atlas.ued.sfl:SFL"),
        "echo": Row(EchoConfig, "atlas.ued.echo:Echo"),
    },
    _check,
)
"""By the name in their settings."""


def absent(name: str, plain: dict[str, Any], plan: dict[str, Any], sentence: str) -> Row:
    """A row for a teacher that was passed by value in another process: its settings and its plan can be read, as a run
    has kept them, and whoever needs the teacher itself gets the sentence."""
    nested = {"buffer": BufferConfig, "edits": EditConfig}
    told = {key.name: plan[key.name] for key in fields(Plan) if key.name in plan}
    kept = Plan(**told | {key: from_plain(kind, told[key]) for key, kind in nested.items() if told.get(key)})
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
