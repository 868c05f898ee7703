"""How machines and hierarchies are followed, in plain Python, one rule at a time.

A machine is `(leaving, outcome)`: for each state its edges as tuples `(literals, target, reward, callee)`, callee None
for a plain edge, and 0, 1 or 2 for running, accepting, rejecting. A label is the set of propositions that hold.
"""

from dataclasses import dataclass, field


@dataclass
class Twin:
    """A hierarchy and where it stands; a flat machine is a hierarchy of one."""

    machines: list
    root: int = 0
    machine: int = -1
    state: int = 0
    stack: list = field(default_factory=list)
    """Open calls, the innermost last: caller, the state it goes on from, and what that move pays."""

    def __post_init__(self):
        self.machine = self.root

    @property
    def outcome(self):
        """Rejected iff the current machine rejects, at any depth; accepted iff the root accepts."""
        here = self.machines[self.machine][1][self.state]
        return here if here == 2 or not self.stack else 0

    def step(self, label):
        """Consume one label and return the reward."""
        if self.outcome:
            return 0.0
        path = self.path(self.machine, self.state, label)
        if path is None:
            return 0.0
        for _, target, reward, callee in path[:-1]:
            self.stack.append((self.machine, target, reward))
            self.machine, self.state = callee, 0
        _, self.state, total, _ = path[-1]
        while self.stack and self.machines[self.machine][1][self.state] == 1:
            self.machine, self.state, reward = self.stack.pop()
            total += reward
        return total

    def path(self, machine, state, label):
        """The edges that one label takes, from caller to callee down to a plain one; None if there is no such way."""
        for edge in self.machines[machine][0][state]:
            if not holds(edge[0], label):
                continue
            if edge[3] is None:
                return [edge]
            below = self.path(edge[3], 0, label)
            if below is not None:
                return [edge, *below]
        return None


def holds(literals, label):
    """Whether a conjunction of signed literals holds."""
    return all((abs(literal) - 1 in label) == (literal > 0) for literal in literals)
