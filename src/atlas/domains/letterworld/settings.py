"""The settings of LetterWorld: which letters lie on the map, and how often."""

from dataclasses import dataclass
from typing import Final, Literal

from atlas.settings import DomainSettings, require, setting

SIZE: Final = 7
"""Rows and columns of the map."""
LETTERS: Final = "abcdefghijkl"
Letter = Literal["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]


@dataclass(frozen=True, kw_only=True)
class LetterWorldConfig(DomainSettings):
    """The maps of LetterWorld that are sampled and edited."""

    name: Literal["letterworld"] = "letterworld"
    """Which domain."""
    letters: tuple[Letter, ...] = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
    """Letters of sampled maps."""
    copies: int = setting(2, at_least=1, at_most=8)
    """How often each of them lies on a sampled map; edits never make it more."""
    step_limit: int = setting(75, at_least=1)
    """Steps after which an episode is cut."""

    def check(self) -> None:
        require(len(self.letters) > 0, self.key("letters"), self.letters, "at least one")
        require(len(set(self.letters)) == len(self.letters), self.key("letters"), self.letters, "each at most once")
        room = SIZE * SIZE - 1
        require(
            len(self.letters) * self.copies <= room,
            self.key("copies"), self.copies, f"letters x copies must be at most {room}, so that the agent has a cell",
        )  # fmt: skip
