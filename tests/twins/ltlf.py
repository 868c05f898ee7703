"""LTLf by the book: does a finite trace satisfy a formula? And random formulas and traces to ask about."""

import random

UNARY = ("not", "X", "N", "F", "G")
BINARY = ("and", "or", "implies", "iff", "U", "R", "W", "M")
CO_SAFE = ("and", "or", "X", "F", "U", "M")


def satisfies(trace, formula, at=0):
    """The textbook definition, at one position of a trace (a list of sets of proposition ids)."""
    operator, *args = formula
    last = len(trace) - 1
    ahead = range(at, len(trace))
    if operator in ("true", "false"):
        return operator == "true"
    if operator == "last":
        return at == last
    if operator == "prop":
        return args[0] in trace[at]
    if operator == "not":
        return not satisfies(trace, args[0], at)
    if operator == "X":
        return at < last and satisfies(trace, args[0], at + 1)
    if operator == "N":
        return at == last or satisfies(trace, args[0], at + 1)
    if operator == "F":
        return any(satisfies(trace, args[0], i) for i in ahead)
    if operator == "G":
        return all(satisfies(trace, args[0], i) for i in ahead)
    return _binary(trace, operator, *args, at)


def _binary(trace, operator, a, b, at):
    ahead = range(at, len(trace))
    if operator in ("and", "or", "implies", "iff"):
        x, y = satisfies(trace, a, at), satisfies(trace, b, at)
        return {"and": x and y, "or": x or y, "implies": not x or y, "iff": x == y}[operator]
    holds_until = any(satisfies(trace, b, i) and all(satisfies(trace, a, j) for j in range(at, i)) for i in ahead)
    if operator == "U":
        return holds_until
    if operator == "W":
        return holds_until or all(satisfies(trace, a, i) for i in ahead)
    released = any(satisfies(trace, a, i) and all(satisfies(trace, b, j) for j in range(at, i + 1)) for i in ahead)
    return released or (operator == "R" and all(satisfies(trace, b, i) for i in ahead))


def random_formula(rng: random.Random, size: int, props: int, operators=UNARY + BINARY):
    """A formula with at most `size` operators; with the co-safe ones, negation only stands before propositions."""
    if size == 0:
        atom = rng.choice([("prop", rng.randrange(props))] * 6 + [("true",), ("false",)])
        return ("not", atom) if rng.random() < 0.3 else atom
    operator = rng.choice(operators)
    if operator in UNARY:
        return (operator, random_formula(rng, size - 1, props, operators))
    left = rng.randrange(size)
    parts = (random_formula(rng, n, props, operators) for n in (left, size - 1 - left))
    return (operator, *parts)


def random_trace(rng: random.Random, length: int, props: int):
    return [{p for p in range(props) if rng.random() < 0.4} for _ in range(length)]


def write(formula, names) -> str:
    """The formula as text, with all brackets."""
    operator, *args = formula
    symbols = {"not": "!", "and": "&", "or": "|", "implies": "->", "iff": "<->"}
    if operator == "prop":
        return names[args[0]]
    if len(args) < 2:
        return f"{symbols.get(operator, operator)} {' '.join(f'({write(a, names)})' for a in args)}".strip()
    return f"({write(args[0], names)}) {symbols.get(operator, operator)} ({write(args[1], names)})"
