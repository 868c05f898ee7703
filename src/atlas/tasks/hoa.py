"""Export to HOA (Hanoi omega-automata, version 1), which other tools read.

There a task is a deterministic, complete Büchi automaton: staying is an edge, acceptance a marked state that is never
left. Rewards have no place in HOA; a header of our own lists them, which other tools skip. Hierarchies are flattened.
"""

from typing import Any

import numpy as np

from atlas.tasks.diagram import Cube, Diagram, Diagrams
from atlas.tasks.flatten import flatten
from atlas.tasks.rm import ACCEPTED, RUNNING, RewardMachine
from atlas.tasks.view import Machine, view
from atlas.vocabulary import Vocabulary

REWARDS = "atlas-rewards"
"""The header that lists the reward of each edge that leaves a running state, in the order of the body."""


def to_hoa(task: Any, vocabulary: Vocabulary, name: str = "") -> str:
    """The task as an automaton in HOA."""
    machine = view(task if isinstance(task, RewardMachine) else flatten(task)).machines[0]
    props = sorted({abs(x) - 1 for edge in machine.edges for x in edge.literals})
    states = machine.reachable()
    body: list[str] = []
    rewards: list[float] = []
    for number, u in enumerate(states):
        mark = " {0}" if machine.outcome[u] == ACCEPTED else ""
        body.append(f'State: {number} "{machine.name(u)}"{mark}')
        for label, target, reward in _hoa_edges(machine, u, props):
            body.append(f"[{label}] {states.index(target)}")
            rewards += [reward] * (machine.outcome[u] == RUNNING)
    return "\n".join([*_header(name, states, props, rewards, vocabulary), "--BODY--", *body, "--END--"]) + "\n"


def _header(name: str, states: list[int], props: list[int], rewards: list[float], vocabulary: Vocabulary) -> list[str]:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return [
        "HOA: v1",
        *([f'name: "{quoted}"'] if name else []),
        f"States: {len(states)}",
        "Start: 0",
        " ".join([f"AP: {len(props)}", *(f'"{vocabulary.names[p]}"' for p in props)]),
        "acc-name: Buchi",
        "Acceptance: 1 Inf(0)",
        "properties: trans-labels explicit-labels state-acc deterministic complete",
        " ".join([f"{REWARDS}:", *(f'"{np.float32(r)}"' for r in rewards)]),
    ]


def _hoa_edges(machine: Machine, u: int, props: list[int]) -> list[tuple[str, int, float]]:
    """Label, target and reward of each edge, made to exclude each other; then the loop of staying."""
    if machine.outcome[u] != RUNNING:
        return [("t", u, 0.0)]
    diagrams = Diagrams()
    left: Diagram = 1
    labels: dict[tuple[int, float], Diagram] = {}
    for edge in machine.leaving(u):
        guard = diagrams.conjunction(edge.literals)
        ends = (edge.target, edge.reward)
        labels[ends] = diagrams.either(labels.get(ends, 0), diagrams.both(guard, left))
        left = diagrams.both(left, diagrams.negate(guard))
    labels[u, 0.0] = diagrams.either(labels.pop((u, 0.0), 0), left)
    return [
        (_label(diagrams.cover(label, label), props), target, reward)
        for (target, reward), label in labels.items()
        if label
    ]


def _label(cubes: list[Cube], props: list[int]) -> str:
    conjunctions = [
        "&".join(("" if x > 0 else "!") + str(props.index(abs(x) - 1)) for x in cube) or "t" for cube in cubes
    ]
    return " | ".join(conjunctions)
