"""The buffer as anyone would write it: one slot at a time, lists and loops. Slow, and the judge of the fast one."""

import math
from dataclasses import dataclass, field


@dataclass
class Entry:
    name: object
    """Stands for the problem; equal names mean equal content."""
    score: float
    best_return: float
    attempts: int
    solves: int
    last_seen: int


@dataclass
class Newcomer:
    name: object
    score: float
    best_return: float
    attempts: int
    solves: int
    trivial: bool = False


@dataclass
class SlowBuffer:
    capacity: int
    prioritisation: str = "rank"
    temperature: float = 1.0
    top: int = 1
    rho: float = 0.1
    deduplicate: bool = False
    clock: int = 0
    slots: list = field(default_factory=list)

    def __post_init__(self):
        self.slots = [None] * self.capacity

    def filled(self):
        return [i for i in range(self.capacity) if self.slots[i] is not None]

    def priorities(self):
        filled = self.filled()
        by_score = self._shares({i: self._weight(i) for i in filled})
        by_staleness = self._shares({i: self.clock - self.slots[i].last_seen for i in filled})
        mixed = {i: (1 - self.rho) * by_score[i] + self.rho * by_staleness[i] for i in filled}
        return [mixed.get(i, 0.0) for i in range(self.capacity)]

    def _weight(self, slot):
        if self.prioritisation == "proportional":
            return max(self.slots[slot].score, 0.0) ** (1 / self.temperature)
        rank = self._rank(slot)
        if self.prioritisation == "topk":
            return 1.0 if rank <= self.top else 0.0
        return (1 / rank) ** (1 / self.temperature)

    def _rank(self, slot):
        rank = 1
        for other in self.filled():
            higher = self.slots[other].score > self.slots[slot].score
            earlier_equal = self.slots[other].score == self.slots[slot].score and other < slot
            rank += higher or earlier_equal
        return rank

    @staticmethod
    def _shares(weights):
        total = sum(weights.values())
        if total == 0:
            return {i: 1 / len(weights) for i in weights}
        return {i: w / total for i, w in weights.items()}

    def update(self, visits):
        """`visits`: (slot, score, best_return, attempts, solves) each; a slot may come several times."""
        by_slot = {}
        for slot, *visit in visits:
            if slot >= 0:
                by_slot.setdefault(slot, []).append(visit)
        for slot, copies in by_slot.items():
            entry = self.slots[slot]
            episodes = [score for score, _, attempts, _ in copies for _ in range(attempts)]
            if episodes:
                entry.score = math.fsum(episodes) / len(episodes)
            entry.best_return = max([entry.best_return, *(best for _, best, _, _ in copies)])
            entry.attempts += sum(attempts for _, _, attempts, _ in copies)
            entry.solves += sum(solves for _, _, _, solves in copies)
            entry.last_seen = self.clock

    def insert(self, newcomers):
        priorities = self.priorities()
        order = sorted(range(self.capacity), key=lambda i: (self.slots[i] is not None, priorities[i], i))
        welcome = sorted((n for n in newcomers if not n.trivial and n.attempts > 0), key=lambda n: -n.score)
        if self.deduplicate:
            welcome = self._without_repeats(welcome)
        for slot, newcomer in zip(order, welcome, strict=False):
            held = self.slots[slot]
            if held is None or newcomer.score > held.score:
                n = newcomer
                self.slots[slot] = Entry(n.name, n.score, n.best_return, n.attempts, n.solves, self.clock)

    def _without_repeats(self, welcome):
        known = {self.slots[i].name for i in self.filled()}
        kept = []
        for newcomer in welcome:
            if newcomer.name not in known:
                known.add(newcomer.name)
                kept.append(newcomer)
        return kept
