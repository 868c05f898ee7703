"""Tasks as plain values: reward machines that may call each other. No JAX.

Everything people do with tasks works on `Task`: front ends build one, printers, checks, drawings and the prover read
one. Training uses its arrays (`atlas.tasks.packed`); `tabulate` makes them as NumPy tables, `untabulate` reads them.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from atlas.errors import AtlasError
from atlas.vocabulary import ACCEPTED, REJECTED, RUNNING, Pictured

NO_CALL: Final = -1
"""What a plain edge calls."""
UNUSED: Final = -1
"""Target of an edge slot that holds no edge, and every other empty slot of a table."""
MAX_STATES: Final = 127
"""The number of a state, over all machines, is one byte."""
MAX_EDGES: Final = 4_096
"""Of one machine."""
MAX_REWARD: Final = 1_000_000
MAX_TABLE: Final = 1 << 22
"""Literals that the table of one machine has room for: states x edges x literals, each as many as the most."""
MAX_CHAINS: Final = 4_096
"""Ways out of one state, through calls."""
ACCEPT, REJECT = -1, -2
"""Targets that stand for acceptance and rejection while a machine is built."""


class Edge(NamedTuple):
    """A transition of a machine. Edges out of a state are tried in their order."""

    source: int
    target: int
    literals: tuple[int, ...] = ()
    """All must hold. Signed: `proposition + 1`, negative if negated. None at all: always satisfied."""
    reward: float = 0.0
    """Paid when the edge is finished: for a call, when it returns."""
    call: int = NO_CALL
    """Number of the machine that is called."""


@dataclass(frozen=True)
class Machine:
    """One reward machine. States are numbered from 0, the initial one; terminal states have no edges."""

    edges: tuple[Edge, ...]
    """By source, then in the order in which they are tried."""
    outcomes: tuple[int, ...]
    """RUNNING, ACCEPTED or REJECTED, one a state."""

    @functools.cached_property
    def leaving(self) -> tuple[tuple[Edge, ...], ...]:
        """The edges out of each state."""
        rows: list[list[Edge]] = [[] for _ in self.outcomes]
        for edge in self.edges:
            rows[edge.source].append(edge)
        return tuple(map(tuple, rows))

    @functools.cached_property
    def reachable(self) -> tuple[int, ...]:
        """The states that a path of edges leads to, guards ignored, in breadth-first order."""
        found = [0]
        for u in found:
            found += dict.fromkeys(edge.target for edge in self.leaving[u] if edge.target not in found)
        return tuple(found)

    def can_accept(self, returning: Iterable[int] = ()) -> bool:
        """Whether a path of edges that call nothing, or one of these machines, leads to acceptance; guards ignored."""
        passed = {NO_CALL, *returning}
        passable = Machine(tuple(edge for edge in self.edges if edge.call in passed), self.outcomes)
        return any(self.outcomes[u] == ACCEPTED for u in passable.reachable)

    @functools.cached_property
    def states(self) -> tuple[int, ...]:
        """The states in use, the initial one and all ends of edges, in ascending order: numbers may have gaps."""
        return tuple(sorted({0}.union(*((edge.source, edge.target) for edge in self.edges))))

    @property
    def running(self) -> list[int]:
        """The states in use that are not terminal."""
        return [u for u in self.states if self.outcomes[u] == RUNNING]

    def usual_reward(self, edge: Edge, is_root: bool = True) -> float:
        """The reward of an edge if nothing is said: 1 into the acceptance of the root, else 0."""
        return float(is_root and self.outcomes[edge.target] == ACCEPTED)

    def name(self, u: int) -> str:
        """The name of a state: `u0`, `uA`, `uR`."""
        return state_name(u, self.outcomes[u])


@dataclass(frozen=True)
class Task(Pictured):
    """Machines, one of which is the root; a flat task has one. Calls are acyclic and never lead to the root."""

    machines: tuple[Machine, ...]
    root: int = 0

    @property
    def is_flat(self) -> bool:
        """Whether there is one machine only."""
        return len(self.machines) == 1

    @property
    def called(self) -> list[int]:
        """The machines that the root calls, directly or not, in ascending order."""
        found = {self.root}
        for number in (todo := [self.root]):
            new = {edge.call for edge in self.machines[number].edges if edge.call != NO_CALL} - found
            found |= new
            todo += new
        return sorted(found - {self.root})

    @functools.cached_property
    def can_accept(self) -> frozenset[int]:
        """The machines in which a path of edges leads to acceptance, calls only of such machines, guards ignored."""
        found: frozenset[int] = frozenset()
        while (able := frozenset(m for m, one in enumerate(self.machines) if one.can_accept(found))) != found:
            found = able
        return found

    @property
    def flat(self) -> Machine:
        """The only machine of a flat task, or that of the flattened one."""
        return self.machines[0] if self.is_flat else flatten(self).machines[0]


# Names


def state_name(index: int, outcome: int) -> str:
    """The name of a state in files, traces and drawings: `u2`, `uA`, `uR`."""
    return {ACCEPTED: "uA", REJECTED: "uR"}.get(int(outcome), f"u{int(index)}")


def machine_name(index: int) -> str:
    """The name of a machine; that of a flat task is `m0`."""
    return f"m{int(index)}"


def literal_names(literals: Iterable[int], names: Sequence[str]) -> list[str]:
    """The literals of a guard as text, a leading `-` for negation, unused slots left out."""
    return [("-" if literal < 0 else "") + names[abs(int(literal)) - 1] for literal in literals if literal]


# Building


def flat_task(
    edges: Iterable[tuple[Any, ...]], accepting: Iterable[int] = (ACCEPT,), rejecting: Iterable[int] = (REJECT,)
) -> Task:
    """A flat task from `Edge`s or tuples like them; states are numbered as `machine` says."""
    return Task((machine(edges, accepting, rejecting),))


def machine(
    edges: Iterable[tuple[Any, ...]], accepting: Iterable[int] = (ACCEPT,), rejecting: Iterable[int] = (REJECT,)
) -> Machine:
    """A machine from `Edge`s or tuples like them. State 0 is the initial one.

    Running states keep their order and, where no terminal number lies below them, their numbers. All accepting
    states become one, which comes after the running ones; then all rejecting ones, likewise. Edges keep their order.
    A machine whose initial state is terminal has no other. Rewards are rounded to float32, as training has them.
    """
    accepting, rejecting = frozenset(accepting), frozenset(rejecting)
    terminal = accepting | rejecting
    listed = [] if 0 in terminal else [Edge(*edge) for edge in edges]
    mentioned = {0, *(e.source for e in listed), *(e.target for e in listed)}
    for edge in listed:
        if edge.source in terminal:
            raise AtlasError(f"an edge leaves state {edge.source}, which is accepting or rejecting: none may")
    running = sorted(mentioned - terminal)
    if running and running[0] < 0:
        raise AtlasError(f"state {running[0]} is neither accepting nor rejecting: other states are numbered from 0")
    number = {u: u - sum(0 <= t < u for t in terminal) for u in running}
    outcomes = [RUNNING] * (max(number.values(), default=-1) + 1)
    for group, result in ((accepting, ACCEPTED), (rejecting, REJECTED)):
        if group & mentioned:
            number |= dict.fromkeys(group & mentioned, len(outcomes))
            outcomes.append(result)
    if len(outcomes) > MAX_STATES:
        raise AtlasError(f"a machine of {len(outcomes)} states is too large: at most {MAX_STATES} are allowed")
    if len(listed) > MAX_EDGES:
        raise AtlasError(f"a machine of {len(listed):,} transitions is too large: at most {MAX_EDGES:,} are allowed")
    for edge in listed:
        if not abs(edge.reward) <= MAX_REWARD:
            raise AtlasError(f"the reward {edge.reward} is not allowed: at most {MAX_REWARD:,} in size is")
    renamed = [
        Edge(number[e.source], number[e.target], tuple(map(int, e.literals)), float(np.float32(e.reward)), int(e.call))
        for e in listed
    ]
    one = Machine(tuple(sorted(renamed, key=lambda edge: edge.source)), tuple(outcomes))
    literals = max([len(edge.literals) for edge in one.edges], default=0)
    if len(outcomes) * max(map(len, one.leaving)) * literals > MAX_TABLE:
        raise AtlasError("a machine with so many transitions and conditions is too large")
    return one


def hierarchy(machines: Sequence[Machine], root: int = 0) -> Task:
    """A task of several machines; an error if a call is cyclic, leads to the root or to no machine."""
    most = max(len(m.outcomes) for m in machines)
    if len(machines) * most > MAX_STATES:
        raise AtlasError(f"{len(machines)} machines x {most} states are too many: at most {MAX_STATES} may be")
    if not 0 <= root < len(machines):
        raise AtlasError(f"the root {machine_name(root)} does not exist: there are {len(machines)} machines")
    callees = [sorted({e.call for e in m.edges if e.call != NO_CALL}) for m in machines]
    for caller, called in enumerate(callees):
        for callee in called:
            if not 0 <= callee < len(machines):
                raise AtlasError(f"{machine_name(caller)} calls {machine_name(callee)}, which does not exist")
            if callee == root:
                raise AtlasError(f"{machine_name(caller)} calls {machine_name(root)}: the root may not be called")

    ways: dict[int, int] = {}  # how many chains leave the initial state of each machine

    def visit(number: int, callers: tuple[int, ...]) -> int:
        if number in callers:
            cycle = " -> ".join(machine_name(m) for m in (*callers[callers.index(number) :], number))
            raise AtlasError(f"the calls {cycle} are cyclic: a machine may not call itself, directly or through others")
        if number not in ways:
            for callee in callees[number]:
                visit(callee, (*callers, number))
            each = [
                sum(1 if edge.call == NO_CALL else ways[edge.call] for edge in edges)
                for edges in machines[number].leaving
            ]
            if max(each) > MAX_CHAINS:
                raise AtlasError(
                    f"{machine_name(number)} calls so many machines in turn that it has {max(each):,} ways out"
                )
            ways[number] = each[0]
        return ways[number]

    for number in range(len(machines)):
        visit(number, ())
    return Task(tuple(machines), root)


# Flattening

Node = tuple[int, int]
"""A machine and one of its states."""


class Stack(NamedTuple):
    """Where a task stands: the current node, and where each open call returns to, with the reward that is due then."""

    node: Node
    returns: tuple[tuple[Node, float], ...] = ()
    """Innermost first."""


def chains(task: Task, node: Node) -> list[tuple[Edge, ...]]:
    """Every way out of a node: its edge, then an edge of the callee's initial state, and so on down to a plain one."""
    number, state = node
    ways: list[tuple[Edge, ...]] = []
    for edge in task.machines[number].leaving[state]:
        below = [()] if edge.call == NO_CALL else chains(task, (edge.call, 0))
        ways += [(edge, *rest) for rest in below]
    return ways


def take(task: Task, stack: Stack, chain: Sequence[Edge]) -> tuple[Stack, float]:
    """The stack after a chain was taken and all calls that it completes have returned, and the reward."""
    number, returns = stack.node[0], stack.returns
    for edge in chain[:-1]:
        returns = (((number, edge.target), edge.reward), *returns)
        number = edge.call
    node, reward = (number, chain[-1].target), chain[-1].reward
    while returns and outcome(task, node) == ACCEPTED:
        (node, due), returns = returns[0], returns[1:]
        reward += due
    return Stack(node, returns), reward


def outcome(task: Task, node: Node) -> int:
    """The outcome of a state of a machine."""
    return task.machines[node[0]].outcomes[node[1]]


def flatten(task: Task) -> Task:
    """The flat task that moves, pays and ends on the same labels. Calls make copies, so it can be far larger."""
    return task if task.is_flat else flatten_with_stacks(task)[0]


def flatten_with_stacks(task: Task) -> tuple[Task, list[Stack]]:
    """`flatten`, and the stack that each running state stands for."""
    start = Stack((task.root, 0))
    ended = outcome(task, start.node)
    if ended != RUNNING:
        return flat_task([], [0] * (ended == ACCEPTED), [0] * (ended == REJECTED)), []
    number, todo, edges = {start: 0}, [start], list[Edge]()
    for stack in todo:
        for chain in chains(task, stack.node):
            literals = dict.fromkeys(literal for edge in chain for literal in edge.literals)
            if any(-literal in literals for literal in literals):
                continue
            after, reward = take(task, stack, chain)
            ended = outcome(task, after.node)
            if ended == RUNNING and after not in number:
                number[after] = len(number)
                todo.append(after)
            target = number[after] if ended == RUNNING else _BUILD_NAME[ended]
            edges.append(Edge(number[stack], target, tuple(literals), reward))
        if len(number) > MAX_STATES - 2:
            raise AtlasError(f"the flat form of the task has more than {MAX_STATES - 2} states")
    return flat_task(edges), todo


_BUILD_NAME: Final = {ACCEPTED: ACCEPT, REJECTED: REJECT}


# Identity


def canonical(task: Task) -> Task:
    """The same task with states and machines numbered by a breadth-first search.

    Literals and edges are sorted, and what cannot be reached is dropped, so tasks that differ only by names, order or
    padding become equal. Sorting edges is safe for deterministic tasks, and only for these.
    """
    numbered: dict[int, list[Edge]] = {}
    for number in (order := [task.root]):
        numbered[number] = _canonical_edges(task.machines[number])
        order += dict.fromkeys(e.call for e in numbered[number] if e.call != NO_CALL and e.call not in order)
    place = {NO_CALL: NO_CALL} | {number: new for new, number in enumerate(order)}
    ended = {number: task.machines[number].outcomes[0] for number in order}
    return hierarchy(
        [
            machine(
                [edge._replace(call=place[edge.call]) for edge in numbered[number]],
                [0] if ended[number] == ACCEPTED else [ACCEPT],
                [0] if ended[number] == REJECTED else [REJECT],
            )
            for number in order
        ]
    )


def _canonical_edges(one: Machine) -> list[Edge]:
    edges: dict[Edge, None] = {}
    number = {0: 0}
    for u in (todo := [0]):
        ordered = [
            e._replace(literals=tuple(sorted(set(e.literals), key=lambda x: (abs(x), x)))) for e in one.leaving[u]
        ]
        for edge in sorted(ordered, key=lambda e: (e.literals, e.reward, e.call != NO_CALL)):
            v = edge.target
            if one.outcomes[v] == RUNNING and v not in number:
                number[v] = len(number)
                todo.append(v)
            target = number[v] if one.outcomes[v] == RUNNING else _BUILD_NAME[one.outcomes[v]]
            edges[edge._replace(source=number[u], target=target)] = None
    return list(edges)


def content_hash(task: Task) -> str:
    """A hexadecimal name for what a task is: equal for tasks of equal canonical form."""
    tables = tabulate(canonical(task))
    flat = tables.call is None
    digest = hashlib.sha256(b"RewardMachine" if flat else b"Hierarchy")
    for array in tables:
        if array is not None:
            row = array[0] if flat else array
            digest.update(str(row.shape).encode() + row.astype(row.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]


# Tables: the arrays that training works on, as numpy has them


class TaskSize(NamedTuple):
    """Sizes that the tables of a task are padded to."""

    machines: int
    states: int
    """States of one machine."""
    edges: int
    """Edges out of one state."""
    literals: int
    """Literals on one edge."""
    chains: int = 0
    """Ways out of one state, counting each chain of calls down to a plain edge; 0 for flat tasks, which need none."""
    links: int = 0
    """Edges in one such chain."""


class Tables(NamedTuple):
    """A task as arrays, padded. Flat tasks have no `call`, `root` and `chain`."""

    target: np.ndarray
    """`int8[machines, states, edges]`: where each edge leads, in its own machine; UNUSED for an empty slot."""
    guard: np.ndarray
    """`int16[machines, states, edges, literals]`: signed literals; 0 for an empty slot."""
    reward: np.ndarray
    """`float32[machines, states, edges]`"""
    outcome: np.ndarray
    """`int8[machines, states]`"""
    call: np.ndarray | None = None
    """`int8[machines, states, edges]`: the machine an edge calls; UNUSED for a plain edge."""
    root: np.ndarray | None = None
    """`int8[]`"""
    chain: np.ndarray | None = None
    """`int8[machines, states, chains, links]`: each way out of a state, as edge slots from the caller down to a plain
    edge (see `chains`); UNUSED behind it."""


def natural_size(task: Task) -> TaskSize:
    """The smallest sizes that hold a task."""
    leaving = [edges for m in task.machines for edges in m.leaving]
    size = TaskSize(
        machines=len(task.machines),
        states=max(len(m.outcomes) for m in task.machines),
        edges=max([1, *map(len, leaving)]),
        literals=max([1, *(len(edge.literals) for edges in leaving for edge in edges)]),
    )
    if task.is_flat:
        return size
    ways = [
        way for m, one in enumerate(task.machines) for u in range(len(one.outcomes)) for way in [chains(task, (m, u))]
    ]
    return size._replace(
        chains=max([1, *map(len, ways)]), links=max([1, *(len(chain) for way in ways for chain in way)])
    )


def tabulate(task: Task, size: TaskSize | None = None) -> Tables:
    """The tables of a task, at its natural size or padded to a larger one; an error if it does not fit.

    A flat task is written as a hierarchy of one machine where `size` has room for several.
    """
    need = natural_size(task)
    size = need if size is None else size
    if size.machines > 1 and need.machines == 1:
        need = need._replace(chains=need.edges, links=1)
    if any(n > s for n, s in zip(need, size, strict=True)):
        raise AtlasError(
            "the task does not fit: "
            + ", ".join(f"{n} {name} of {s}" for n, s, name in zip(need, size, size._fields, strict=True) if n > s)
        )
    target = np.full(size[:3], UNUSED, np.int8)
    guard = np.zeros(size[:4], np.int16)
    reward = np.zeros(size[:3], np.float32)
    outcomes = np.full(size[:2], RUNNING, np.int8)
    call = np.full(size[:3], UNUSED, np.int8)
    for m, one in enumerate(task.machines):
        outcomes[m, : len(one.outcomes)] = one.outcomes
        for u, edges in enumerate(one.leaving):
            for e, edge in enumerate(edges):
                target[m, u, e], reward[m, u, e], call[m, u, e] = edge.target, edge.reward, edge.call
                guard[m, u, e, : len(edge.literals)] = edge.literals
    if size.machines == 1:
        return Tables(target, guard, reward, outcomes)
    chain = np.full((*size[:2], size.chains, size.links), UNUSED, np.int8)
    for m, one in enumerate(task.machines):
        for u in range(len(one.outcomes)):
            for c, way in enumerate(_slot_chains(task, m, u)):
                chain[m, u, c, : len(way)] = way
    return Tables(target, guard, reward, outcomes, call, np.array(task.root, np.int8), chain)


def _slot_chains(task: Task, number: int, state: int) -> list[tuple[int, ...]]:
    """`chains` as slots of edges."""
    found: list[tuple[int, ...]] = []
    for slot, edge in enumerate(task.machines[number].leaving[state]):
        below = [()] if edge.call == NO_CALL else _slot_chains(task, edge.call, 0)
        found += [(slot, *rest) for rest in below]
    return found


def untabulate(tables: Tables) -> Task:
    """The task that tables hold; padding behind the last used state and machine is left out."""
    machines = [_read_machine(tables, m) for m in range(len(tables.target))]
    if tables.call is None or tables.root is None:
        return Task((machines[0],))
    root = int(tables.root)
    used = [m for m, one in enumerate(machines) if one.edges or one.outcomes != (RUNNING,)]
    return Task(tuple(machines[: max([root, *used]) + 1]), root)


def _read_machine(tables: Tables, m: int) -> Machine:
    target, outcomes = tables.target[m], tables.outcome[m]
    edges = tuple(
        Edge(
            source=int(u),
            target=int(target[u, e]),
            literals=tuple(int(x) for x in tables.guard[m, u, e] if x),
            reward=float(tables.reward[m, u, e]),
            call=NO_CALL if tables.call is None else int(tables.call[m, u, e]),
        )
        for u, e in zip(*np.nonzero(target != UNUSED), strict=True)
    )
    last = max([0, *(u for edge in edges for u in (edge.source, edge.target)), *np.nonzero(outcomes)[0].tolist()])
    return Machine(edges, tuple(int(o) for o in outcomes[: last + 1]))


# Following


def follow(task: Task, labels: Iterable[frozenset[int]]) -> Iterator[tuple[Stack, float]]:
    """Where a task stands after each label (ids of what holds, taken as given), and what the label earned."""
    stack = Stack((task.root, 0))
    for label in labels:
        reward = 0.0
        if outcome(task, stack.node) == RUNNING:
            for chain in chains(task, stack.node):
                if all(holds(edge.literals, label) for edge in chain):
                    stack, reward = take(task, stack, chain)
                    break
        yield stack, reward


def holds(literals: Iterable[int], label: frozenset[int]) -> bool:
    """Whether a conjunction of signed literals holds on a label."""
    return all((abs(literal) - 1 in label) == (literal > 0) for literal in literals)
