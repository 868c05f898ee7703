"""Problems that differ by colours, sides or the order of states are alike; others are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from atlas.domains.minigrid import text
from atlas.domains.minigrid.alphabet import VOCABULARY
from atlas.tasks.english import english
from atlas.types import Problem
from symmetry import likeness

LEVEL = """
##########
##or>.kg##
##..sb..##
##..xgoa##
##########
"""
TASK = "put the red ball next to the blue square, then open the green door and go to the yellow key"


def problem(level: str = LEVEL, task: str = TASK, carrying: str | None = None) -> Problem:
    on_device = jax.tree.map(jnp.asarray, text.parse_level(level, carrying))
    return Problem(level=on_device, task=english(task, VOCABULARY))


def recoloured(words: str, drawing: str) -> Problem:
    """Red -> green -> blue -> purple -> yellow -> gray -> red."""
    names, letters = ("red", "green", "blue", "purple", "yellow", "gray"), text.COLOUR_LETTERS
    after = dict(zip(names, names[1:] + names[:1], strict=True))
    following = dict(zip(letters, letters[1:] + letters[:1], strict=True))
    task = " ".join(after.get(word, word) for word in words.split())
    rows = [
        "".join(c + following.get(d, d) if c in "oskx-+" else c + d for c, d in zip(row[::2], row[1::2], strict=True))
        for row in drawing.split()
    ]
    return problem("\n".join(rows), task)


def turned(one: Problem, mirrored: bool, turns: int) -> Problem:
    level = one.level
    cells, agent = np.asarray(level.cells), np.zeros(level.cells.shape, int)
    agent[tuple(np.asarray(level.position))] = 1
    if mirrored:
        cells, agent = cells[:, ::-1], agent[:, ::-1]
    step = np.array(((-1, 0), (0, 1), (1, 0), (0, -1))[int(level.direction)]) * (1, -1 if mirrored else 1)
    for _ in range(turns):  # counter-clockwise: (row, column) -> (-column, row)
        cells, agent, step = np.rot90(cells), np.rot90(agent), np.array((-step[1], step[0]))
    direction = ((-1, 0), (0, 1), (1, 0), (0, -1)).index(tuple(step.tolist()))
    return one.replace(
        level=level.replace(
            cells=jnp.asarray(cells.copy()),
            position=jnp.asarray(np.argwhere(agent)[0], jnp.int8),
            direction=jnp.int8(direction),
        )
    )


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_turned_and_mirrored_problems_are_alike(mirrored: bool, turns: int) -> None:
    assert likeness(turned(problem(), mirrored, turns)) == likeness(problem())


def test_renamed_colours_make_no_difference() -> None:
    assert likeness(recoloured(TASK, LEVEL)) == likeness(problem())
    assert likeness(turned(recoloured(TASK, LEVEL), True, 1)) == likeness(problem())


def test_colours_that_only_the_task_names_are_renamed_too() -> None:
    either = "go to the {} ball and pick up the {} key"
    assert likeness(problem(task=either.format("purple", "yellow"))) == likeness(
        problem(task=either.format("yellow", "purple"))
    )
    assert likeness(problem(task=either.format("purple", "purple"))) != likeness(
        problem(task=either.format("yellow", "purple"))
    )


@pytest.mark.parametrize(
    "other",
    [
        problem(task=TASK.replace("red ball", "gray ball")),
        problem(task=TASK.replace("then open", "then go to")),
        problem(LEVEL.replace(">.", "v.")),
        problem(LEVEL.replace("xg", "-g")),
        problem(LEVEL.replace("..sb", "sb..")),
        problem(LEVEL.replace("oa", "og")),
        problem(carrying="red key"),
    ],
)
def test_anything_else_does(other: Problem) -> None:
    assert likeness(other) != likeness(problem())


def test_what_is_carried_has_a_colour_like_all_else() -> None:
    assert likeness(problem(carrying="purple key")) == likeness(
        problem(carrying="yellow key").replace(task=problem(task=TASK.replace("yellow", "purple")).task)
    )
    assert likeness(problem(carrying="red key")) != likeness(problem(carrying="green key"))
