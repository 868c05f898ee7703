"""A hierarchy as an equal flat machine: its states are the stacks that the hierarchy can be in."""

from typing import Any, NamedTuple

from atlas.errors import AtlasError
from atlas.tasks import rm
from atlas.tasks.hrm import Hierarchy, arranged, old
from atlas.tasks.rm import ACCEPT, ACCEPTED, MAX_STATES, REJECT, REJECTED, RUNNING, UNUSED, RewardMachine, Transition

Node = tuple[int, int]
"""A machine and one of its states."""


class Stack(NamedTuple):
    """Where a hierarchy stands: the current node, and behind it where each open call returns to, with what it pays."""

    node: Node
    returns: tuple[tuple[Node, float], ...] = ()
    """Innermost first."""


def flatten(task: Any) -> RewardMachine:
    """The flat machine that moves, pays and ends on the same labels. Calls make copies, so it can be far larger."""
    return flatten_with_stacks(task)[0]


def flatten_with_stacks(task: Any) -> tuple[RewardMachine, list[Stack]]:
    """`flatten`, and the stack that each running state stands for."""
    reader = _Reader(old(task))
    ended = reader.ended(reader.start.node)
    if ended != RUNNING:
        return rm.machine([], [0] * (ended == ACCEPTED), [0] * (ended == REJECTED)), []
    stacks, edges = _explore(reader)
    return rm.machine(edges), stacks


class _Reader:
    """A hierarchy as plain Python values."""

    def __init__(self, task: Hierarchy) -> None:
        machines = arranged(task)
        self.leaving = [leaving for leaving, _ in machines]
        self.outcome = [outcome for _, outcome in machines]
        self.start = Stack((int(task.root), 0))

    def chains(self, node: Node) -> list[list[Transition]]:
        """Every way out of a node: its edge, then the callee's first edge, and so on down to a plain one."""
        machine, state = node
        ways: list[list[Transition]] = []
        for edge in self.leaving[machine][state]:
            below: list[list[Transition]] = [[]] if edge.call == UNUSED else self.chains((edge.call, 0))
            ways += [[edge, *rest] for rest in below]
        return ways

    def follow(self, stack: Stack, chain: list[Transition]) -> tuple[Stack, float]:
        """The stack after a chain was taken and all calls that it completes have returned, and the reward."""
        machine, returns = stack.node[0], stack.returns
        for edge in chain[:-1]:
            returns = (((machine, edge.target), edge.reward), *returns)
            machine = edge.call
        node, reward = (machine, chain[-1].target), chain[-1].reward
        while returns and self.ended(node) == ACCEPTED:
            (node, due), returns = returns[0], returns[1:]
            reward += due
        return Stack(node, returns), reward

    def ended(self, node: Node) -> int:
        return self.outcome[node[0]][node[1]]


def _explore(task: _Reader) -> tuple[list[Stack], list[Transition]]:
    """All stacks that some labels lead to, in the order of discovery, and the edges between them."""
    number = {task.start: 0}
    todo, edges = [task.start], list[Transition]()
    for stack in todo:
        for chain in task.chains(stack.node):
            guard = _conjunction(chain)
            if guard is None:
                continue
            after, reward = task.follow(stack, chain)
            ended = task.ended(after.node)
            if ended == RUNNING and after not in number:
                number[after] = len(number)
                todo.append(after)
            target = number[after] if ended == RUNNING else _TERMINAL[ended]
            edges.append(Transition(number[stack], target, guard, reward))
        if len(number) > MAX_STATES - 2:
            raise AtlasError(f"the flat form of the task has more than {MAX_STATES - 2} states")
    return todo, edges


_TERMINAL = {ACCEPTED: ACCEPT, REJECTED: REJECT}


def _conjunction(chain: list[Transition]) -> tuple[int, ...] | None:
    """The literals of all guards of a chain, each once; None if they contradict each other."""
    literals = dict.fromkeys(literal for edge in chain for literal in edge.literals)
    return None if any(-literal in literals for literal in literals) else tuple(literals)
