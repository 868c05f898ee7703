"""The settings of Minigrid: which levels are sampled, and what edits may make of them."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from atlas.settings import STEP_LIMIT, DomainSettings, Settings, require, setting

RoomCount = Literal[1, 2, 4, 6, 9]
Colour = Literal["red", "green", "blue", "purple", "yellow", "gray"]
ObjectType = Literal["ball", "square", "key"]
DoorState = Literal["closed", "locked", "open"]
Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ObjectRanges(Settings):
    """How many objects a level may hold, doors included, by number of rooms."""

    section: ClassVar[str] = "domain.objects"
    one_room: Range = setting((1, 5), at_least=1, at_most=24)
    """Least and most objects in a level of one room."""
    two_rooms: Range = setting((1, 10), at_least=1, at_most=30)
    """… of two rooms (one door)."""
    four_rooms: Range = setting((4, 15), at_least=4, at_most=30)
    """… of four rooms (four doors)."""
    six_rooms: Range = setting((7, 20), at_least=7, at_most=30)
    """… of six rooms (seven doors)."""
    nine_rooms: Range = setting((12, 30), at_least=12, at_most=30)
    """… of nine rooms (twelve doors)."""

    def check(self) -> None:
        for name, (low, high) in vars(self).items():
            require(low <= high, self.key(name), (low, high), "least <= most")


@dataclass(frozen=True, kw_only=True)
class MinigridConfig(DomainSettings):
    """The Minigrid levels that are sampled and edited."""

    name: Literal["minigrid"] = "minigrid"
    """Which domain."""
    rooms: tuple[RoomCount, ...] = (1, 2, 4, 6)
    """Room counts a level may have; drawn uniformly, and edits stay among them."""
    objects: ObjectRanges = field(default_factory=ObjectRanges)
    """Bounds on objects, shared by the sampler and the edits."""
    colours: tuple[Colour, ...] = ("red", "green", "blue", "purple", "yellow", "gray")
    """Colours of sampled objects and doors."""
    types: tuple[ObjectType, ...] = ("ball", "square", "key")
    """Types of sampled movable objects."""
    door_states: tuple[DoorState, ...] = ("closed", "locked", "open")
    """States of sampled doors."""
    room_weights: tuple[float, ...] = setting((), at_least=0.0)
    """How often each of `rooms` is drawn, in the same order; none: all alike."""
    walls: float = setting(0.0, at_least=0.0, at_most=1.0)
    """Share of levels that are mazes of the same sizes, with few or many gaps, instead of rooms. Levels made for a task
    and minimal ones keep their rooms."""
    traps: float = setting(0.0, at_least=0.0, at_most=1.0)
    """Share of levels in which a door is certain to be locked and to have a key: what a task wants of the locked door
    is lost once it is unlocked."""
    step_limit: int = setting(STEP_LIMIT, at_least=1)
    """Steps after which an episode is cut."""

    def check(self) -> None:
        weights = self.room_weights
        needed = f"as many as there are domain.rooms ({len(self.rooms)}), not all 0"
        fits = not weights or (len(weights) == len(self.rooms) and any(weights))
        require(fits, self.key("room_weights"), weights, needed)
        can_trap = "locked" in self.door_states and "key" in self.types
        require(not self.traps or can_trap, self.key("traps"), self.traps, "locked doors and keys are needed for it")
        for name in ("rooms", "colours", "types", "door_states"):
            chosen = getattr(self, name)
            require(len(chosen) > 0, self.key(name), chosen, "at least one")
            require(len(set(chosen)) == len(chosen), self.key(name), chosen, "each at most once")
