"""An edit of Minigrid's problems: the agent starts facing the other way."""

import jax.numpy as jnp
from jax import Array

from atlas.types import Edit, Problem


def _turn(key: Array, problem: Problem) -> tuple[Problem, Array]:
    level = problem.level
    turned = level.replace(direction=((level.direction + 2) % 4).astype(level.direction.dtype))
    return problem.replace(level=turned), jnp.full(3, -1, jnp.int16)


ABOUT_TURN: Edit[Problem] = Edit("about_turn", lambda problem: jnp.array(True), _turn)
