"""The nouns (problem, graph, edit, lineage, proposal, outcome) and the contracts (Domain, Surface, Formalism, Teacher).

Everything is written for ONE problem and batched with `vmap` at the edge; only rollout, training, the student and the
teachers see a batch. Every random function takes one `key`, first, and uses it once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float32, Int, Int8, Int16, Int32, Key

from atlas.errors import AtlasError, is_printable
from atlas.struct import Struct, static
from atlas.vocabulary import Pictured, Vocabulary

Level = Any
"""A pytree that only its domain looks into."""
Task = Any
"""A pytree that only its formalism looks into."""
DomainState = Any
TaskState = Any
"""Where a task stands: an integer array for flat machines, a struct with a stack for hierarchies."""

EDIT_ARGUMENTS = 3
"""How many numbers an edit leaves in the lineage: where, where to, what (-1 where one has no meaning)."""


def pack_pair(first: Any, second: Any) -> Any:
    """Two numbers, the second below 100, as one argument of an edit: row and column, or machine and state."""
    return 100 * first + second


def unpack_pair(argument: int) -> tuple[int, int]:
    """The inverse of `pack_pair`."""
    return divmod(argument, 100)


class Problem(Struct, Pictured):
    """A task to be done in a level."""

    level: Level
    task: Task


class Graph(Struct):
    """What the encoder sees of a task: nodes, their out-edges, the literals on them."""

    target: Int8[Array, "nodes edges"]
    """Node an edge leads to; -1 for an unused slot."""
    guard: Int16[Array, "nodes edges literals"]
    """Signed literals, `proposition + 1`, 0 unused."""
    outcome: Int8[Array, "nodes"]
    """0 running, 1 accepted, 2 rejected."""


class Lineage(Struct):
    """Where a problem came from."""

    number: Int32[Array, ""]
    """Serial number of the problem in its run."""
    parent: Int32[Array, ""]
    """Serial number of the problem it was edited from; -1 if it was sampled."""
    generation: Int16[Array, ""]
    """How many sequences of edits lie between it and a sampled problem."""
    edits: Int8[Array, "max_edits"]
    """Which edits made it from its parent, in order, as rows of the table of edits; -1 unused."""
    arguments: Int16[Array, "max_edits 3"]
    """What each of them was applied to, as numbers."""

    @property
    def next_generation(self) -> Int16[Array, "..."]:
        """The generation of its children; after the last number that there is, all have that one."""
        return jnp.minimum(self.generation, GENERATIONS - 1).astype(jnp.int16) + jnp.int16(1)


GENERATIONS: Final = 2**15 - 1
"""Generations are counted up to here."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Edit(Generic[Item]):
    """One small change of a level, a task or a whole problem.

    `apply` is only called where `applicable` holds; it returns the changed item and EDIT_ARGUMENTS numbers for the
    lineage. The result must obey all rules of its family: contract tests check every row of every table.
    """

    name: str
    applicable: Callable[[Item], Bool[Array, ""]]
    apply: Callable[[Key[Array, ""], Item], tuple[Item, Int16[Array, "3"]]]


class Partial(Struct):
    """How far the most recent unsolved episode on a problem got: the raw material of hindsight edits."""

    level: Level
    """The world as it stood then, as a level."""
    task_state: TaskState
    valid: Bool[Array, ""]
    """False where no unsolved episode was seen."""


class Record(Struct):
    """What earlier visits to a problem showed."""

    best_return: Float32[Array, "batch"]
    """Best undiscounted return ever seen; -inf if the problem is new."""
    attempts: Int32[Array, "batch"]
    """Finished episodes."""
    solves: Int32[Array, "batch"]
    """Finished episodes in which the task was accepted."""
    prior: Float32[Array, "batch"] | None = None
    """The solve rate that was expected before the first attempt; None: nothing was."""
    plan: Int32[Array, "batch"] | None = None
    """Steps of a plan that the prover found; 0 where none is known."""


KINDS: Final = ("new", "replayed", "edited")
"""What the problems of a batch can be."""
NEW, REPLAYED, EDITED = range(len(KINDS))


class Proposal(Struct):
    """A batch of problems to play, all of one kind."""

    kind: Int8[Array, ""]
    """NEW, REPLAYED or EDITED."""
    problems: Problem
    lineage: Lineage
    slots: Int32[Array, "batch"]
    """Where each problem lives in the teacher's buffer; -1 for new and edited ones."""
    record: Record
    """What the teacher knew before; scores need the best return and the counts of all visits."""


class Outcome(Struct):
    """What the student made of each problem of a proposal."""

    score: Float32[Array, "batch"]
    best_return: Float32[Array, "batch"]
    """Best undiscounted return of a finished episode in this rollout; -inf where none finished."""
    attempts: Int32[Array, "batch"]
    """Finished episodes."""
    solves: Int32[Array, "batch"]
    """Finished episodes in which the task was accepted."""
    trivial: Bool[Array, "batch"]
    """The first label alone ended the task: such problems are never kept."""
    partial: Partial
    """Batched."""
    first: Int8[Array, "batch"] | None = None
    """Whether the first episode on the problem was solved (1) or not (0); -1 if it did not finish. Later episodes of a
    rollout finish more often when they are solved, so only first ones tell the solve rate."""
    discounted: Float32[Array, "batch"] | None = None
    """Mean discounted return of the finished episodes; 0 without any."""
    echo: "Echoes | None" = None
    """Tasks read off what was played, for teachers whose plan asks for them."""


class Echoes(Struct):
    """For each problem of a proposal: one that the episode just played on it would have solved."""

    problems: Problem
    """The same level with a sequence of what came to hold in it, one after the other."""
    valid: Bool[Array, "batch"]
    """False where nothing came to hold."""


@runtime_checkable
class Domain(Protocol):
    """A family of levels and the laws of the world: what training needs. Its levels name it: `Level.domain`."""

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions, by number."""

    vocabulary: Vocabulary

    @property
    def view_shape(self) -> tuple[int, int]:
        """Rows and columns of what the student sees."""

    @property
    def view_fields(self) -> tuple[int, ...]:
        """How many values each field of a cell's byte takes; the last field has the lowest bits."""

    @property
    def padding(self) -> Mapping[str, int]:
        """What fills unused room in the arrays of a level, by field; 0 where nothing is said."""

    @property
    def edits(self) -> tuple[Edit[Level], ...]:
        """Changes of levels, each a row."""

    @property
    def mask(self) -> np.ndarray:
        """`bool[props]`: the propositions that tasks in its levels may use."""

    @property
    def strata(self) -> tuple[str, tuple[int, ...]]:
        """The measure that held-out problems are balanced over and solve rates told by, and its values."""

    def measure(self, level: Level) -> dict[str, Int32[Array, ""]]:
        """The sizes of a level, by name: what curricula are described with."""

    def sample(self, key: Key[Array, ""]) -> Level:
        """Draw a level."""

    def sample_minimal(self, key: Key[Array, ""]) -> Level:
        """Draw one of the smallest levels."""

    def sample_for(self, key: Key[Array, ""], props: Int[Array, "mentions"], minimal: bool = False) -> Level:
        """Draw a level that holds what some propositions mention (-1: none), and nothing else if it is minimal."""

    def reset(self, level: Level) -> DomainState:
        """The state an episode starts in."""

    def step(self, state: DomainState, action: Int[Array, ""]) -> DomainState:
        """The state after an action. Impossible actions change nothing."""

    def view(self, state: DomainState) -> Array:
        """What the student sees, in bytes."""

    def holds(self, state: DomainState, props: Int[Array, "..."]) -> Bool[Array, "..."]:
        """Which of the asked propositions hold now."""

    def as_level(self, state: DomainState) -> Level:
        """The level that starts where this state is; `as_level(reset(level))` is `level`."""

    def possible(self, level: Level) -> Bool[Array, "props"]:
        """Which propositions the objects of this level could make true: the mask of level-conditioned pairing."""


@runtime_checkable
class MapMaker(Protocol):
    """What a domain has besides whose students may have a map of what they have seen (`student.network.map`)."""

    @property
    def map_shape(self) -> tuple[int, int]:
        """Rows and columns of a view with its map."""

    @property
    def map_fields(self) -> tuple[int, ...]:
        """How many values each field of its bytes takes, as `Domain.view_fields`."""

    def remember(self, seen: Any, state: DomainState) -> Any:
        """What was seen in an episode before (None at its start), with what is seen in this state."""

    def view_with_map(
        self, state: DomainState, seen: Any, wanted: Int[Array, "literals"], forbidden: Int[Array, "literals"]
    ) -> Array:
        """The view and a map of what was seen, in bytes; things that the wanted and the forbidden propositions (-1:
        none) are about may be marked. It must hold nothing that was not seen."""


@runtime_checkable
class Guide(Protocol):
    """What a domain's check for solvability has besides that can tell how far acceptance is (`tasks.reward =
    outlook`)."""

    def outlook(self, problem: Problem) -> Any:
        """What is to be known of a problem with a flat task to tell it; made once an episode."""

    def progress(self, outlook: Any, node: Int[Array, ""], state: DomainState) -> Float32[Array, ""]:
        """How near acceptance is, in a state of the task and of the domain: 0 at the start of an episode, about 1 at
        the end, below 0 farther off."""


@dataclass(frozen=True)
class Brush:
    """Something that an editor can put into a cell of a level."""

    name: str
    """As in `red ball`; no two are called the same."""
    group: str
    """As in `ball`: brushes of one group are kinds of one thing."""
    symbols: tuple[str, ...]
    """What it looks like: names of `Surface.symbols`, later ones over earlier ones."""


@runtime_checkable
class Surface(Protocol):
    """What people need of a domain: text, words, pictures, solutions. Training never imports one.

    Drawings are those of `atlas.show.canvas`.
    """

    @property
    def level_type(self) -> type:
        """The class of its levels."""

    @property
    def level_keys(self) -> tuple[str, ...]:
        """The keys of a problem file that describe the level; the first is needed."""

    def parse_level(self, texts: Mapping[str, str]) -> Level:
        """The level that the entries of a file describe, at its natural size. A mistake is a `LevelTextError`."""

    def format_level(self, level: Level) -> dict[str, str]:
        """The inverse: entries of a file, those left out that say nothing."""

    def crop(self, level: Level) -> Level:
        """A level at its natural size."""

    def pad(self, level: Level) -> Level:
        """A level in arrays of the largest size, so that one compiled program serves all."""

    def sound(self, levels: Level) -> np.ndarray:
        """`bool[batch]`: which levels of a batch, read from a file that anyone may have written, can be."""

    def things(self, level: Level) -> list[str]:
        """What is in a level, one entry for each thing, in words of the vocabulary: what `all the red balls` means."""

    def describe(self, level: Level) -> dict[str, Any]:
        """A level in plain values, as JSON has them."""

    def overview(self, level: Level) -> dict[str, str]:
        """A level in a few short words, by column of a table."""

    def observe(self, state: DomainState) -> dict[str, Any]:
        """A moment of an episode in plain values: where the agent is, what it sees and holds."""

    def moment(self, observed: Mapping[str, Any]) -> dict[str, str]:
        """The same in a few short words, by column of a table."""

    def edit_words(self, name: str, arguments: Sequence[int]) -> str | None:
        """What a level edit changed, from what it left in the lineage; None for edits that are not of levels."""

    def drawing(self, level: Level, strip: bool | None = None) -> Any:
        """A level as a drawing, one unit a cell. `strip`: with room below it for what is held; if None, as needed."""

    def sign(self, prop: int) -> Any:
        """A proposition as a small picture, for drawings of tasks."""

    def legend(self) -> Sequence[tuple[Any, str]]:
        """Small drawings of what levels hold and of kinds of propositions, each with what it means in a few words."""

    def symbols(self) -> Sequence[Any]:
        """The symbols that `tiles` names: `cell` and `agent`, each with a number."""

    def tiles(self, level: Level) -> dict[str, Any]:
        """A level for players in a web page: `cols`, `cells` by number, where the agent is (`at`), its number (`to`),
        the cells it sees (`lit`), and if it holds something, the number of its cell (`held`) and words (`holding`)."""

    def view_tiles(self, view: np.ndarray) -> dict[str, Any]:
        """What the agent sees, in the same way."""

    def brushes(self) -> Sequence[Brush]:
        """What can be put into a cell, the one that clears it first."""

    def paint(self, level: Level, brush: str, row: int, column: int) -> Level:
        """A level with a brush put into a cell; what cannot be is a `LevelTextError`, as in `move` and `resize`."""

    def move(self, level: Level, source: tuple[int, int], target: tuple[int, int]) -> Level:
        """A level in which what stands in one cell, first of all the agent, stands in another."""

    def resize(self, level: Level, rows: int, columns: int) -> Level:
        """A level with rows and columns added or cut off below and to the right."""

    def templates(self) -> Mapping[str, Level]:
        """Levels to start from, by name; the first is the plainest."""

    def example(self) -> Mapping[str, str]:
        """A problem that shows what the domain is about: the entries of a file."""

    def terminal(self, level: Level) -> Any:
        """A level in colours, as `rich` text."""

    def terminal_view(self, view: np.ndarray) -> Any:
        """What the agent sees, as `rich` text."""

    @property
    def carries(self) -> bool:
        """Whether agents can hold things at all."""

    def holding(self, level: Level) -> Any | None:
        """What the agent holds, as `rich` text; None if nothing."""

    @property
    def keys(self) -> tuple[Mapping[str, int], str]:
        """Key on a keyboard -> action, and a line of help. Arrow keys are `up`, `down`, `left`, `right`."""

    def screen_many(self, problems: Problem) -> np.ndarray:
        """`bool[batch]`: which problems of a batch pass the domain's cheap check for solvability, whatever their tasks
        and levels."""

    def solve_many(self, problems: Sequence[Problem], **options: Any) -> list[Any]:
        """A verdict with proof for each problem: `solvable` with a plan, `unsolvable` with a reason, or `unknown`.

        Options: `step_limit`, `budget`, `polish`, `bound`, `workers`, `progress`."""

    def hints(self, problem: Problem) -> list[str]:
        """What looks odd about a problem and is no mistake, in sentences."""


@runtime_checkable
class Formalism(Protocol):
    """A family of tasks and what it means to follow one."""

    @property
    def edits(self) -> tuple[Edit[Task], ...]:
        """Changes of tasks, each a row."""

    def sample(self, key: Key[Array, ""], mask: Bool[Array, "props"]) -> Task:
        """Draw a task whose propositions are all in the mask."""

    def initial(self, task: Task) -> TaskState:
        """Where the task starts, before any label."""

    def guards(self, task: Task, state: TaskState) -> Int16[Array, "edges literals"]:
        """The signed literals on the edges that leave the current state: all the domain is asked about."""

    def advance(
        self, task: Task, state: TaskState, holds: Bool[Array, "edges literals"]
    ) -> tuple[TaskState, Float32[Array, ""]]:
        """Follow the satisfied edge, or stay. `holds` answers for the PROPOSITION of each literal, sign ignored.

        A terminal state stays as it is, with reward 0."""

    def outcome(self, task: Task, state: TaskState) -> Int8[Array, ""]:
        """0 running, 1 accepted, 2 rejected."""

    def graph(self, task: Task) -> Graph:
        """The task as the encoder sees it."""

    def nodes(self, state: TaskState) -> Int[Array, "depth"]:
        """The rows of the graph where the task stands, innermost first; -1 unused. Depth 1 for flat machines."""

    def prefix(self, task: Task, state: TaskState) -> tuple[Task, Bool[Array, ""]]:
        """The task that is accepted on reaching `state` (hindsight, preceding), and whether it fits its arrays."""

    def suffix(self, task: Task, state: TaskState) -> tuple[Task, Bool[Array, ""]]:
        """The task that remains from `state` on (hindsight, succeeding), and whether it fits its arrays."""

    def sequence(self, props: Int[Array, "most"], length: Int32[Array, ""]) -> Task:
        """The task to make the first `length` of some propositions true, one after the other."""


@runtime_checkable
class Teacher(Protocol):
    """Proposes problems and learns from their outcomes. Its state is a pytree; all calls are pure.

    What others need to know of it beyond these calls is the `Plan` that its settings give (`atlas.ued`). A teacher may
    also have `tell(state)`: what it has learnt, as plain values for the record.
    """

    @property
    def rows(self) -> Any:
        """A prefix of its state: True where the first axis counts problems, which several devices divide among
        themselves, False where each of them has a copy."""

    def init(self, key: Key[Array, ""]) -> Any:
        """The state before the first iteration."""

    def decide(self, key: Key[Array, ""], state: Any) -> Bool[Array, ""]:
        """Whether the next iteration trains (True) or only scores its problems (False)."""

    def propose(self, key: Key[Array, ""], state: Any, train: bool) -> tuple[Any, Proposal]:
        """The next batch, for as many environments as the plan says: `num_train` if `train`, else `num_eval`."""

    def observe(self, state: Any, proposal: Proposal, outcome: Outcome) -> Any:
        """Take note of the outcome."""

    def memory(self, state: Any) -> Any:
        """The buffer of problems that it remembers (`atlas.ued.buffer`); None if it remembers none."""


@dataclass(frozen=True)
class About:
    """What people say about a problem. Not traced: compared by value, so that JAX never mixes up two names."""

    name: str = ""
    notes: str = ""
    tags: tuple[str, ...] = ()
    source: str = ""
    """The file it came from."""

    def __post_init__(self) -> None:
        for word in (self.name, *self.tags):
            if not is_printable(word) or not {"\n", "\t"}.isdisjoint(word):
                raise AtlasError(f"'{word}' is no name or tag: one line without control characters is needed")
        if not is_printable(self.notes):
            raise AtlasError(f"the notes on '{self.name}' have control characters in them")


class NamedProblem(Problem):
    """A problem with a name: what files hold and evaluation reports on."""

    about: About = static(About())

    @property
    def name(self) -> str:
        """How reports call it."""
        return self.about.name

    @property
    def notes(self) -> str:
        """What its author wanted to say."""
        return self.about.notes

    @property
    def tags(self) -> tuple[str, ...]:
        """Words to group by."""
        return self.about.tags

    @property
    def source(self) -> str:
        """The file it came from."""
        return self.about.source

    def bare(self) -> Problem:
        """The problem alone: functions that are compiled for it serve all problems of its size."""
        return Problem(level=self.level, task=self.task)
