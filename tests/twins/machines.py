"""Plain tasks by hand: hierarchies from lists of edges, and following a flat machine."""

from atlas.tasks.machine import Task, hierarchy, machine
from atlas.vocabulary import RUNNING


def nested(lists, root=0) -> Task:
    """A hierarchy, each machine a list of edges."""
    return hierarchy([machine(edges) for edges in lists], root)


def follow_flat(task, trace):
    """The outcome after each label; the first satisfied edge is taken, terminal states stay."""
    u, outcomes = 0, []
    for label in trace:
        if task.flat.outcomes[u] == RUNNING:
            leaving = task.flat.leaving[u]
            satisfied = (e for e in leaving if all((abs(x) - 1 in label) == (x > 0) for x in e.literals))
            u = next((e.target for e in satisfied), u)
        outcomes.append(task.flat.outcomes[u])
    return outcomes
