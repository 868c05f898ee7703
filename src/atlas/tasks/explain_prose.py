"""Machines as sentences. A machine is cut where all its paths meet; each block between two cuts is one phrase.

The phrases are proposals: `explain` keeps them only if they are read back as the same machine.
"""

from typing import NamedTuple

from atlas.tasks.explain_words import Words
from atlas.tasks.rm import REJECTED, RUNNING, Transition
from atlas.tasks.view import Machine


class _Block(NamedTuple):
    """What happens between two states that every path passes."""

    text: str
    end: int
    avoided: tuple[int, ...] = ()
    """Literals that fail the task meanwhile."""
    is_choice: bool = False
    is_list: bool = False
    """Whether `without` behind it would cover its last part only."""


def prose(machine: Machine, words: Words) -> str | None:
    """The machine in a sentence or two, or None if it loops or branches in a way that sentences do not."""
    if not machine.edges or _has_cycle(machine):
        return None
    blocks = _blocks(machine, 0, None, words, choices=True)
    return _sentences(blocks, words) if blocks else None


def _has_cycle(machine: Machine) -> bool:
    """Whether some state can be left and reached again (waiting for a fall, as in `twice`, is no cycle)."""
    open_states, done = set(), set()

    def visit(u: int) -> bool:
        if u in done:
            return False
        if u in open_states:
            return True
        open_states.add(u)
        found = any(visit(edge.target) for edge in machine.leaving(u))
        done.add(u)
        return found

    return visit(0)


def _blocks(machine: Machine, start: int, end: int | None, words: Words, choices: bool) -> list[_Block] | None:
    """The phrases from one state to another (to the end of the task if None)."""
    blocks: list[_Block] = []
    u = start
    while u != end and machine.outcome[u] == RUNNING:
        block = _block(machine, u, words, choices)
        if block is None:
            return None
        blocks.append(block)
        u = block.end
    return blocks if end in (u, None) else None


def _block(machine: Machine, u: int, words: Words, choices: bool) -> _Block | None:
    failing = [e for e in machine.leaving(u) if machine.outcome[e.target] == REJECTED]
    edges = [e for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED]
    if any(len(e.literals) != 1 for e in failing) or not edges:
        return None
    avoided = tuple(e.literals[0] for e in failing)
    edges = [_without_negations(e, avoided) for e in edges]
    repeated = _repeated(machine, u, edges, words)
    if repeated:
        return repeated._replace(avoided=avoided)
    if len({e.target for e in edges}) == 1:
        text = _listed([words.guard(e.literals) for e in edges], "or")
        return _Block(text, edges[0].target, avoided, is_list=len(edges) > 1)
    joint = _in_any_order(machine, u, words, avoided)
    if joint:
        return joint
    return _choice(machine, edges, words) if choices and not avoided else None


def _without_negations(edge: Transition, avoided: tuple[int, ...]) -> Transition:
    """The edge without the negations that `without` implies."""
    return edge._replace(literals=tuple(x for x in edge.literals if -x not in avoided))


def _repeated(machine: Machine, u: int, edges: list[Transition], words: Words) -> _Block | None:
    """`A 3 times`: A, not A, A, not A, A."""
    if len(edges) != 1 or len(edges[0].literals) != 1:
        return None
    literal, end, times = edges[0].literals[0], edges[0].target, 1
    while True:
        fall = _only(machine, end, -literal)
        rise = None if fall is None else _only(machine, fall, literal)
        if rise is None:
            break
        end, times = rise, times + 1
    if times == 1 or literal < 0:
        return None
    return _Block(f"{words.command(literal)} {'twice' if times == 2 else f'{times} times'}", end)


def _only(machine: Machine, u: int, literal: int) -> int | None:
    """Where a state leads that has one edge (besides failing ones), with this literal."""
    edges = [e for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED]
    if len(edges) == 1 and literal in edges[0].literals:
        return edges[0].target
    return None


def _in_any_order(machine: Machine, u: int, words: Words, avoided: tuple[int, ...]) -> _Block | None:
    """`A and B and C`: follow one order and take the rest on trust."""
    asked = sorted({x for e in machine.leaving(u) for x in e.literals if x > 0 and x not in avoided})
    end = u
    for n, literal in enumerate(asked):
        later = set(asked[n + 1 :])
        steps = [e for e in machine.leaving(end) if literal in e.literals and not later & set(e.literals)]
        if len(steps) != 1:
            return None
        end = steps[0].target
    return _Block(_listed([words.command(x) for x in asked], "and"), end, avoided, is_list=True)


def _choice(machine: Machine, edges: list[Transition], words: Words) -> _Block | None:
    """`either A, then B, or C`: branches up to the state where they meet."""
    ahead = _unavoidable(machine)
    meeting = set.intersection(*(ahead[e.target] for e in edges))
    if not meeting:
        return None
    end = max(meeting, key=lambda u: len(ahead[u]))
    branches = []
    for edge in edges:
        rest = _blocks(machine, edge.target, end, words, choices=False)
        first = next((x for x in edge.literals if x > 0), None)
        if rest is None or first is None or any(block.avoided or " or " in block.text for block in rest):
            return None
        branches.append(", then ".join([words.command(first), *(block.text for block in rest)]))
    return _Block("either " + ", or ".join(branches), end, is_choice=True)


def _unavoidable(machine: Machine) -> dict[int, set[int]]:
    """The states that every path from each state passes, itself included (rejecting ones are no way out)."""
    found: dict[int, set[int]] = {}

    def visit(u: int) -> set[int]:
        if u not in found:
            successors = {e.target for e in machine.leaving(u) if machine.outcome[e.target] != REJECTED}
            found[u] = {u}.union(set.intersection(*map(visit, successors)) if successors else ())
        return found[u]

    for u in machine.outcome:
        visit(u)
    return found


def _sentences(blocks: list[_Block], words: Words) -> str:
    avoided = set(blocks[0].avoided)
    whole = len(blocks) > 1 and bool(avoided) and all(set(b.avoided) == avoided and not b.is_choice for b in blocks)
    sentences: list[list[str]] = [[]]
    for block in blocks:
        if block.is_choice and sentences[-1]:
            sentences.append([])
        sentences[-1].append(block.text if whole else _limited(block, words))
        if block.is_choice:
            sentences.append([])
    texts = [", then ".join(parts) for parts in sentences if parts]
    if whole:
        texts[0] += ", without " + _avoiding(blocks[0], words)
    return " ".join(_sentence(text, n > 0) for n, text in enumerate(texts))


def _limited(block: _Block, words: Words) -> str:
    if not block.avoided:
        return block.text
    text = f"({block.text})" if block.is_list else block.text
    return f"{text} without {_avoiding(block, words)}"


def _avoiding(block: _Block, words: Words) -> str:
    return _listed([words.doing(x) for x in dict.fromkeys(block.avoided)], "or")


def _listed(phrases: list[str], word: str) -> str:
    """`A`, `A or B`, `A, B or C`."""
    return f" {word} ".join([", ".join(phrases[:-1])] * (len(phrases) > 1) + phrases[-1:])


def _sentence(text: str, follows: bool) -> str:
    return f"Then {text}." if follows else f"{text[0].upper()}{text[1:]}."
