"""Tasks as explicit transitions, the shape of the authors' task files:

    root: m0
    transitions:
      m0:
        u0:
          u1: {reward: 0.0, edges: [{call: leaf, formula: [front_ball]}]}
          uA: {reward: 1.0, edges: [{call: m1, formula: [front_key, -front_ball]}]}
      m1: …

`u0` is initial, `uA` accepts, `uR` rejects; `-` negates. Edges to one target share its reward unless they have one of
their own; without any it is 1 into the root's `uA`, else 0. For a flat task the machine may be left out, and an edge
may be a proposition, a list of literals (all of them), or a list of such lists (any of them):

    transitions:
      u0: {u1: front_ball, uA: [front_key, -front_ball]}
      u1: {uA: [[front_door], [carrying_key, -front_ball]]}
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from atlas.errors import AtlasError, nearest
from atlas.tasks import hrm, rm
from atlas.tasks.automaton import MOST_STATES
from atlas.tasks.names import ACCEPTING_NAME, REJECTING_NAME, literal_names, machine_name
from atlas.tasks.rm import ACCEPT, ACCEPTED, REJECT, UNUSED, Transition
from atlas.tasks.view import Machine, view
from atlas.vocabulary import Vocabulary

KEYS: Final = ("root", "transitions", "alphabet")
LEAF: Final = "leaf"
"""What an edge calls that calls nothing."""
_TERMINAL: Final = {ACCEPTING_NAME: ACCEPT, REJECTING_NAME: REJECT}


def parse(value: dict[str, Any], vocabulary: Vocabulary) -> Any:
    """A machine or a hierarchy from the mapping that holds `transitions`."""
    machines = _mapping(value["transitions"], "transitions")
    if not machines:
        _fail("transitions", "at least one transition is needed")
    is_short = all(re.fullmatch(r"u(\d+|A|R)", str(name)) for name in machines)
    places = {machine_name(0): "transitions"} if is_short else {name: f"transitions.{name}" for name in machines}
    machines = {machine_name(0): machines} if is_short else machines
    numbers = {_index(name, "m", f"transitions.{name}"): name for name in machines}
    root = _index(value.get("root", machine_name(min(numbers))), "m", "root")
    if root not in numbers:
        _fail("root", f"there is no machine {machine_name(root)}; there are {', '.join(map(str, machines))}")
    lists: list[list[Transition]] = [[] for _ in range(max(numbers) + 1)]
    for number, name in numbers.items():
        lists[number] = list(_machine(machines[name], places[name], number == root, vocabulary))
        _check_calls(lists[number], numbers, places[name])
    if len(numbers) == 1 and all(edge.call == UNUSED for edge in lists[root]):
        return rm.machine(lists[root])
    return hrm.hierarchy(lists, root)


def _check_calls(edges: list[Transition], numbers: dict[int, str], place: str) -> None:
    for edge in edges:
        if edge.call != UNUSED and edge.call not in numbers:
            _fail(place, f"{machine_name(edge.call)} is called, but not described")


def _machine(value: Any, where: str, is_root: bool, vocabulary: Vocabulary) -> Iterator[Transition]:
    for source, targets in _mapping(value, where).items():
        u = _state(source, f"{where}.{source}")
        if u in (ACCEPT, REJECT) and targets:
            _fail(f"{where}.{source}", "nothing follows once a task is accepted or rejected")
        for target, edges in _mapping(targets or {}, f"{where}.{source}").items():
            place = f"{where}.{source}.{target}"
            v = _state(target, place)
            usual = float(v == ACCEPT and is_root)
            for literals, reward, call in _edges(edges, usual, place, vocabulary):
                yield Transition(u, v, literals, reward, call)


def _edges(
    value: Any, usual: float, place: str, vocabulary: Vocabulary
) -> Iterator[tuple[tuple[int, ...], float, int]]:
    """Literals, reward and callee of each edge to one target, in the long form or the short one."""
    if not isinstance(value, dict):
        yield from ((literals, usual, UNUSED) for literals in _formulas(value, place, vocabulary))
        return
    _known_keys(value, ("reward", "edges"), place)
    shared = _reward(value.get("reward", usual), place)
    edges = value.get("edges")
    if not isinstance(edges, list) or not edges:
        _fail(place, "'edges' must be a list of at least one edge")
    for number, edge in enumerate(edges):
        at = f"{place}.edges[{number}]"
        _known_keys(_mapping(edge, at), ("call", "formula", "reward"), at)
        call = edge.get("call", LEAF)
        callee = UNUSED if call == LEAF else _index(call, "m", f"{at}.call")
        for literals in _formulas(edge.get("formula") or [], f"{at}.formula", vocabulary):
            yield literals, _reward(edge.get("reward", shared), at), callee


def _formulas(value: Any, place: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """One conjunction, or several where a list of lists is given."""
    if isinstance(value, str):
        return [(_literal(value, place, vocabulary),)]
    if not isinstance(value, list):
        _fail(place, "a proposition, a list of literals, or a mapping with 'reward' and 'edges' is needed")
    if value and all(isinstance(part, list) for part in value):
        return [formula for i, part in enumerate(value) for formula in _formulas(part, f"{place}[{i}]", vocabulary)]
    return [tuple(_literal(part, place, vocabulary) for part in value)]


def _literal(value: Any, place: str, vocabulary: Vocabulary) -> int:
    if not isinstance(value, str):
        _fail(place, f"{value!r} is no literal: the name of a proposition is needed, with '-' before it to negate it")
    name = value.strip().lstrip("-~!").strip()
    if name not in vocabulary.ids:
        _fail(place, f"'{name}' is no proposition{nearest(name, vocabulary.names)}")
    return (vocabulary.ids[name] + 1) * (-1 if value.strip()[0] in "-~!" else 1)


def _state(name: Any, place: str) -> int:
    return _TERMINAL[name] if name in _TERMINAL else _index(name, "u", place, "uA or uR")


def _index(name: Any, letter: str, place: str, others: str = "") -> int:
    match = re.fullmatch(rf"{letter}(\d+)", str(name))
    if not match:
        _fail(
            place, f"'{name}' is no name: {' or '.join(filter(None, [f'{letter}0, {letter}1, …', others]))} is needed"
        )
    if int(match[1]) >= MOST_STATES - 2:
        _fail(place, f"{name} is too large a number: at most {letter}{MOST_STATES - 3} is possible")
    return int(match[1])


def _reward(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _fail(place, f"the reward {value!r} is no number")
    return float(value)


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _fail(place, "a mapping is needed")
    return value


def _known_keys(value: dict[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in value:
        if key not in known:
            _fail(place, f"'{key}' is not known here{nearest(str(key), known) or '; known: ' + ', '.join(known)}")


def _fail(place: str, sentence: str) -> NoReturn:
    raise AtlasError(f"{place}: {sentence}")


def to_plain(task: Any, vocabulary: Vocabulary) -> dict[str, Any]:
    """The task as a mapping that YAML can hold and `parse` reads back: same states, rewards and calls."""
    seen = view(task)
    return {
        "root": machine_name(seen.root),
        "transitions": {machine_name(m): _plain_machine(x, vocabulary) for m, x in enumerate(seen.machines)},
    }


def _plain_machine(machine: Machine, vocabulary: Vocabulary) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for edge in machine.edges:
        targets = plain.setdefault(machine.name(edge.source), {})
        target = targets.setdefault(machine.name(edge.target), {"reward": edge.reward, "edges": []})
        call = LEAF if edge.call == UNUSED else machine_name(edge.call)
        entry: dict[str, Any] = {"call": call, "formula": literal_names(edge.literals, vocabulary.names)}
        if edge.reward != target["reward"]:
            entry["reward"] = edge.reward
        target["edges"].append(entry)
    return plain


def to_short(task: Any, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """The short form of a flat task with the usual rewards, else None."""
    seen = view(task)
    machine = seen.machines[0]
    if not seen.is_flat or any(e.reward != float(machine.outcome[e.target] == ACCEPTED) for e in machine.edges):
        return None
    plain: dict[str, dict[str, Any]] = {}
    for edge in machine.edges:
        formulas = plain.setdefault(machine.name(edge.source), {}).setdefault(machine.name(edge.target), [])
        formulas.append(literal_names(edge.literals, vocabulary.names))
    for targets in plain.values():
        for target, formulas in targets.items():
            if len(formulas) == 1:
                targets[target] = formulas[0][0] if len(formulas[0]) == 1 else formulas[0]
    return {"transitions": plain}
