"""The lineage of the problems in a teacher's buffer: all of them, and their ancestors that have left it.

`lineage.npz` holds the problems with what is known of each: the edits that made it, its score at birth and now. The
buffer is looked at after each call of the compiled step, so a problem that came and went within one call is known by
its number alone.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from atlas.config import Config
from atlas.errors import AtlasError
from atlas.runs.folder import RunFolder, find
from atlas.runs.store import Bulk, load_bulk, save_bulk
from atlas.settings import to_plain
from atlas.types import Lineage
from atlas.ued.buffer import Buffer

Fact = dict[str, Any]


class LineageTracker:
    """Tracks the lineage of the problems in the buffer of a run that is being trained."""

    def __init__(
        self, folder: RunFolder, config: Config, tell_edits: Callable[[Lineage], list[str]], iteration: int
    ) -> None:
        self.path, self.config, self.tell_edits = folder.lineage_file, config, tell_edits
        self.facts: dict[int, Fact] = {}
        self.problems: dict[int, Any] = {}
        with suppress(
            OSError, AtlasError, KeyError, TypeError
        ):  # training does not depend on it: a damaged file begins anew
            bulk = load_bulk(self.path)
            rows = jax.tree.map(np.asarray, bulk.problems)
            for row, fact in enumerate(bulk.settings["problems"]):
                if fact["since"] <= iteration:  # what came later is played again
                    self.facts[fact["number"]] = fact
                    self.problems[fact["number"]] = jax.tree.map(lambda leaf, row=row: leaf[row], rows)

    def update(self, memory: Buffer, iteration: int) -> None:
        """Add problems that entered the buffer; drop those that left it and have no descendants in it."""
        known, problems, lineages = jax.tree.map(np.asarray, (memory.records, memory.problems, memory.lineage))
        filled = np.flatnonzero(known.filled).tolist()
        numbers = lineages.number[filled].tolist()
        for number in self.facts.keys() - set(numbers):
            self.facts[number]["alive"] = False
        for slot, number in zip(filled, numbers, strict=True):
            if number in self.facts:
                continue
            lineage = jax.tree.map(lambda leaf, slot=slot: leaf[slot], lineages)
            self.problems[number] = jax.tree.map(lambda leaf, slot=slot: leaf[slot].copy(), problems)
            self.facts[number] = {
                "number": number,
                "parent": int(lineage.parent),
                "generation": int(lineage.generation),
                "edits": self.tell_edits(lineage),
                "birth": float(known.birth[slot]),
                "since": iteration,
                "alive": True,
                "score": float(known.score[slot]),
                "attempts": int(known.attempts[slot]),
                "solves": int(known.solves[slot]),
            }
        kept: set[int] = set()
        for number in numbers:
            while number in self.facts and number not in kept:
                kept.add(number)
                number = self.facts[number]["parent"]
        for number in self.facts.keys() - kept:
            del self.facts[number], self.problems[number]

    def save(self, memory: Buffer, iteration: int) -> None:
        """Write all of them as they are now, whole or not at all. Who has left keeps the numbers it had last."""
        self.update(memory, iteration)
        if not self.facts:
            return
        known, slots = jax.device_get(memory.records), np.flatnonzero(np.asarray(memory.records.filled))
        for slot, number in zip(slots.tolist(), np.asarray(memory.lineage.number)[slots].tolist(), strict=True):
            self.facts[number] |= {
                "score": float(known.score[slot]),
                "attempts": int(known.attempts[slot]),
                "solves": int(known.solves[slot]),
            }
        numbers = sorted(self.facts)
        rows = jax.tree.map(lambda *leaves: np.stack(leaves), *(self.problems[number] for number in numbers))
        settings = {
            "iteration": iteration,
            "config": to_plain(self.config),
            "problems": [self.facts[number] for number in numbers],
        }
        save_bulk(rows, self.path, settings, self.config.run.seed, [f"problem-{number}" for number in numbers])


@dataclass(frozen=True, eq=False)
class Tree:
    """The family as a file has it."""

    path: Path
    facts: dict[int, Fact]
    bulk: Bulk

    def problem(self, number: int) -> Any:
        """One of the problems."""
        row = self.bulk.names.index(f"problem-{number}")
        return jax.tree.map(lambda leaf: np.asarray(leaf)[row], self.bulk.problems)

    def ancestors(self, number: int) -> list[int]:
        """From the oldest that is known down to the problem itself."""
        found = [number]
        while (parent := self.facts[found[-1]]["parent"]) in self.facts:
            found.append(parent)
        return found[::-1]

    def children(self, number: int) -> list[int]:
        """In the order of their birth."""
        return [fact["number"] for fact in self.facts.values() if fact["parent"] == number]

    def descendants(self, number: int) -> Iterator[tuple[int, int]]:
        """All of them, each after its parent, with how many generations they are below the problem."""
        waiting = [(child, 1) for child in reversed(self.children(number))]
        while waiting:
            one, depth = waiting.pop()
            yield one, depth
            waiting += [(child, depth + 1) for child in reversed(self.children(one))]

    def notable(self, count: int) -> list[int]:
        """Problems in the buffer worth a look: of the latest generation, the highest score first."""
        alive = [fact for fact in self.facts.values() if fact["alive"]]
        alive.sort(key=lambda fact: (-fact["generation"], -fact["score"], fact["number"]))
        return [fact["number"] for fact in alive[:count]]


def read_tree(run: Path) -> Tree:
    """The family of a run's problems; a sentence where there is none."""
    folder = find(run)
    path = folder.lineage_file
    plan = folder.config().plan
    if plan.buffer is None:
        raise AtlasError(f"{run}: {plan.title} keeps no problems, so none has a lineage")
    if not path.exists():
        raise AtlasError(f"{run} has no {path.name}: runs write it with their checkpoints, once a problem was kept")
    bulk = load_bulk(path)
    try:
        facts = {fact["number"]: fact for fact in bulk.settings["problems"]}
        needed = {"number", "parent", "generation", "edits", "birth", "score", "attempts", "solves", "alive"}
        if len(facts) != len(bulk) or any(not needed <= fact.keys() for fact in facts.values()):
            raise KeyError
    except (KeyError, TypeError):
        raise AtlasError(f"{path}: what is known of the problems is not complete") from None
    return Tree(path, facts, bulk)


def number_of(tree: Tree, text: str) -> int:
    """The problem that is meant by `1234` or `problem-1234`."""
    digits = text.removeprefix("problem-").replace(",", "")
    number = int(digits) if digits.isdecimal() and len(digits) < 12 else None
    if number is None or number not in tree.facts:
        some = ", ".join(map(str, tree.notable(5)))
        raise AtlasError(
            f"{tree.path} knows no problem '{text}': it holds those in the buffer and their ancestors, such as {some}"
        )
    return number


def origin(tree: Tree, fact: Fact) -> str:
    """The origin of a problem, in a few words."""
    if fact["parent"] < 0:
        return "sampled"
    lost = "" if fact["parent"] in tree.facts else ", which is no longer known"
    return f"generation {fact['generation']}, from problem {fact['parent']:,}{lost}"


def worth(fact: Fact) -> str:
    """The scores of a problem, and how often it was solved."""
    played = f"solved {fact['solves']:,} of {fact['attempts']:,}"
    now = f"{fact['score']:.3g} now" if fact["alive"] else f"{fact['score']:.3g} before it left the buffer"
    return f"score {fact['birth']:.3g} at birth, {now}; {played}"
