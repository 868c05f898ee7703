"""The sets of Minigrid problems that policies are compared on: how each is made, and how to tell that it is the right
one. *hand* comes as text; the others are level-conditioned and drawn from a seed.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jax
import numpy as np

from atlas.config import Config, PairingConfig, TaskConfig
from atlas.domains.minigrid import babyai
from atlas.domains.minigrid.alphabet import DOOR_STATES, DOOR_TYPE, PROPOSITIONS
from atlas.domains.minigrid.grid import DOOR_LOCKED, KEY, count_objects
from atlas.domains.minigrid.sample import NUM_COLOURS
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.solver.prove import BUDGET
from atlas.errors import AtlasError
from atlas.evaluation.sets import Collection, Recipe, one_kind
from atlas.settings import to_plain
from atlas.tasks.packed import count_states
from atlas.types import Problem
from atlas.vocabulary import ACCEPTED

ROOMS: Final = (1, 2, 4, 6)
LENGTHS: Final = range(1, 6)
BANDS: Final = {
    1: ((1, 2), (3, 4), (5, 5)),
    2: ((1, 3), (4, 7), (8, 10)),
    4: ((4, 7), (8, 11), (12, 15)),
    6: ((7, 10), (11, 16), (17, 20)),
}
"""Few, some or many objects, doors included, by number of rooms."""
BAND_NAMES: Final = ("few", "some", "many")
OBJECT_BANDS: Final = {
    name: {rooms: bands[number] for rooms, bands in BANDS.items()} for number, name in enumerate(BAND_NAMES)
}
"""The bands by name, then by number of rooms: the paper's L, M and H."""


def hand_folder() -> Path:
    """The problems designed by hand: inside an installed package, or beside the source."""
    package = Path(__file__).parents[2]
    inside, beside = package / "hand", package.parents[1] / "problems" / "hand"
    folder = inside if inside.is_dir() else beside
    if not folder.is_dir():
        raise AtlasError(f"the problems designed by hand are neither in {inside} nor in {beside}")
    return folder


def _cells(batch: Problem) -> Sequence[int]:
    """A number for rooms, band of objects and length of the task together; -1 where there is none."""
    rooms, objects = np.asarray(batch.level.rooms), count_objects(np.asarray(batch.level.cells))
    lengths = np.argmax(np.asarray(batch.task.outcome)[:, 0] == ACCEPTED, axis=1)
    cells = np.full(len(rooms), -1)
    for number, (count, band, length) in enumerate(itertools.product(ROOMS, range(len(BAND_NAMES)), LENGTHS)):
        low, high = BANDS[count][band]
        cells[(rooms == count) & (objects >= low) & (objects <= high) & (lengths == length)] = number
    return cells.tolist()


def _tags(problems: Problem) -> list[tuple[str, ...]]:
    rooms, states = np.asarray(problems.level.rooms), np.asarray(jax.vmap(count_states)(problems.task))
    return [(f"rooms-{room}", f"states-{count}") for room, count in zip(rooms, states, strict=True)]


def _tags_with_band(problems: Problem) -> list[tuple[str, ...]]:
    objects = count_objects(np.asarray(problems.level.cells)).tolist()
    bands = [
        next(name for name, (_, high) in zip(BAND_NAMES, BANDS[room], strict=True) if count <= high)
        for room, count in zip(np.asarray(problems.level.rooms).tolist(), objects, strict=True)
    ]
    return [(*tags, f"objects-{band}") for tags, band in zip(_tags(problems), bands, strict=True)]


DEV_KINDS: Final = ("maze", "nine-rooms", "trap", "long")
"""What *dev* has of harder problems than training draws by default."""
DEV: Final = Config(
    domain=MinigridConfig(rooms=(2, 4, 6, 9), walls=0.3, traps=0.4),
    tasks=TaskConfig(max_length=8),
    pairing=PairingConfig(how="level"),
)
_ABOUT_LOCKED: Final = np.array(
    [
        any(thing.type == DOOR_TYPE and thing.state == DOOR_STATES.index("locked") for thing in about.objects)
        for about in PROPOSITIONS
    ]
)


def _dev_kinds(batch: Problem) -> Sequence[int]:
    """The place in DEV_KINDS; -1 for problems of no such kind."""
    cells, rooms = np.asarray(batch.level.cells), np.asarray(batch.level.rooms)
    lengths = np.argmax(np.asarray(batch.task.outcome)[:, 0] == ACCEPTED, axis=1)
    guard = np.asarray(batch.task.guard)
    wants_lock = ((guard > 0) & _ABOUT_LOCKED[np.maximum(guard - 1, 0)]).reshape(len(rooms), -1).any(1)
    has = {kind: (cells[..., None] == kind * 8 + np.arange(NUM_COLOURS)).any((1, 2)) for kind in (DOOR_LOCKED, KEY)}
    is_trap = wants_lock & (has[DOOR_LOCKED] & has[KEY]).any(1)
    usual = (rooms != 0) & (rooms != 9)
    some = (lengths >= 2) & (lengths <= 5)
    kinds = [(rooms == 0) & some, (rooms == 9) & some, usual & some & is_trap, usual & (lengths > 5)]
    return np.select(kinds, range(len(kinds)), -1).tolist()


def _dev_tags(problems: Problem) -> list[tuple[str, ...]]:
    kinds = (DEV_KINDS[kind] for kind in _dev_kinds(problems))
    return [(kind, *tags) for kind, tags in zip(kinds, _tags(problems), strict=True)]


def _recipe(
    name: str,
    about: str,
    tasks: Any,
    count: int,
    balanced: bool,
    fingerprint: str,
    retired: dict[str, str] | None = None,
) -> Recipe:
    """As training draws them, or as many of each number of rooms, band of objects and length."""
    return Recipe(
        name=name,
        about=about,
        config=Config(
            domain=MinigridConfig(rooms=ROOMS), tasks=TaskConfig(sampler=tasks), pairing=PairingConfig(how="level")
        ),
        count=count,
        provenance={
            "pairing": "level", "tasks": tasks, "rooms": list(ROOMS), "balanced": balanced, "budget": BUDGET,
        },
        fingerprint=fingerprint,
        kind_of=_cells if balanced else one_kind,
        kinds=len(ROOMS) * len(BAND_NAMES) * len(LENGTHS) if balanced else 1,
        tags=_tags_with_band if balanced else _tags,
        retired=retired or {},
    )  # fmt: skip


SETS: Final = (
    Collection(
        name="hand",
        about="designed by hand, to compare policies on",
        count=150,
        path=hand_folder,
        fingerprint="229082bbb872d0d174b08878b402e62dd5612bc8a24295237bdbb4dfa8085aef",
    ),
    _recipe(
        "cvar-sequential", "problems with sequential tasks, as training draws them", "sequential", 10_000, False,
        "6740fba3dfb4f51174ed170d2b49e725038e23b9286e4a4df31882cad458ba9d",
    ),
    _recipe(
        "cvar-dag", "problems whose tasks are acyclic graphs, as the DAG presets draw them (`authors-dag`)",
        "authors-dag", 10_000, False, "d0b39f3466802b24a5a4803b089117c627ab5087d4ef3ca821143400355f95b2", {
            "36b94148153d6d8e74570bc4fa129e4951e4ff95416e70f70b7cc3f17370685e":
            "it was drawn with the sampler `dag` while the DAG presets train with `authors-dag`; now `cvar-dag` is "
            "drawn as they train, and `cvar-paper-dag` with `dag`",
        },
    ),
    _recipe(
        "cvar-paper-dag", "problems whose tasks are acyclic graphs, as the paper describes them (`dag`)", "dag",
        10_000, False, "0d883a8f750e1521cde9871f6461c2328e73a336a04acff9fe2552542b5dca67",
    ),
    _recipe(
        "validation", "sequential problems, five for each number of rooms, band of objects and length", "sequential",
        300, True, "048be214f91254fa685e1e5cb19c168add151cac9270157cee3be3515f6b23c1",
    ),
    Recipe(
        name="dev",
        about="mazes, nine rooms, doors that must stay locked, long tasks: to choose settings on",
        config=DEV,
        count=300,
        kind_of=_dev_kinds,
        kinds=len(DEV_KINDS),
        tags=_dev_tags,
        provenance={"domain": to_plain(DEV.domain), "tasks": to_plain(DEV.tasks), "pairing": "level", "budget": BUDGET},
        fingerprint="4a96fa6c4036f3717bff0ace20dd623e5b99044eea8a56f7754001f7b88606cd",
    ),
    Recipe(
        name="babyai",
        about="missions of BabyAI, 25 of each of 16 levels (the extra `babyai` builds it)",
        config=Config(domain=MinigridConfig()),
        count=25 * len(babyai.LEVELS),
        provenance={"levels": list(babyai.LEVELS), "budget": BUDGET},
        fingerprint="2b47d54ab2e16fab3d023111bc61ca0622c3fb76172e778dd22f672bcc6b93e5",
        kinds=len(babyai.LEVELS),
        source=babyai.Missions,
        report=babyai.report,
    ),
)  # fmt: skip
