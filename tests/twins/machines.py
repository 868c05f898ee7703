"""Following a flat machine by hand, over its plain view."""

from atlas.tasks.rm import RUNNING
from atlas.tasks.view import view


def follow_flat(task, trace):
    """The outcome after each label; the first satisfied edge is taken, terminal states stay."""
    machine = view(task).machines[0]
    u, outcomes = 0, []
    for label in trace:
        if machine.outcome[u] == RUNNING:
            satisfied = (e for e in machine.leaving(u) if all((abs(x) - 1 in label) == (x > 0) for x in e.literals))
            u = next((e.target for e in satisfied), u)
        outcomes.append(machine.outcome[u])
    return outcomes
