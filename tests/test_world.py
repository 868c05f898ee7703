"""A domain and a formalism joined: resets, triviality, rewards, ends of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from atlas.domains.minigrid.alphabet import IDS
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.explored import FORBIDDEN, MARK, UNSEEN
from atlas.domains.minigrid.grid import BALL, CELL_NAMES, FORWARD, KEY, PICK_UP, PUT_DOWN, TURN_RIGHT
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.domains.minigrid.text import parse_level
from atlas.struct import Struct
from atlas.tasks.machine import ACCEPT, REJECT, TaskSize, flat_task
from atlas.tasks.packed import RewardMachines, pack
from atlas.types import Formalism, Problem
from atlas.world import World, WorldState, restart

LEVEL = parse_level("""
    ##########
    ##..or..##
    ##....kb##
    ##..^...##
    ##########
""")
"""Nothing ahead; a blue key to the upper right and a red ball above, seen but two steps from being in front."""
SIZE = TaskSize(1, 4, 2, 2)
WORLD = World(Minigrid(MinigridConfig()), RewardMachines(), 5)
step = jax.jit(WORLD.step)
reset = jax.jit(WORLD.reset)


def problem(*edges: tuple, level=LEVEL) -> Problem:
    """A machine from (source, target, names of propositions, reward); a leading `-` negates."""
    numbered = [(u, v, [_literal(name) for name in names], reward) for u, v, names, reward in edges]
    return Problem(level=level, task=pack(flat_task(numbered), SIZE))


def _literal(name: str) -> int:
    return -(IDS[name[1:]] + 1) if name.startswith("-") else IDS[name] + 1


def play(task: Problem, *actions: int) -> tuple[WorldState, list[tuple[float, bool, bool, bool]]]:
    """The last state, and (reward, done, accepted, truncated) of each step."""
    state, records = reset(task), []
    for action in actions:
        state, now = step(task, state, jnp.int32(action))
        records.append((float(now.reward), bool(now.done), bool(now.accepted), bool(now.truncated)))
    return state, records


NOTHING_YET = (0.0, False, False, False)
SOLVED = (1.0, True, True, False)


def test_a_task_is_solved_and_rewarded_once() -> None:
    pick_ball = problem((0, ACCEPT, ["carrying_ball"], 1.0))
    assert not WORLD.trivial(pick_ball, reset(pick_ball))
    state, records = play(pick_ball, FORWARD, PICK_UP)
    assert records == [NOTHING_YET, SOLVED]
    assert int(state.time) == 2


def test_the_task_moves_at_most_once_a_step() -> None:
    """Both guards hold after the first step; the second edge waits for the second step."""
    chain = problem((0, 1, ["front_ball"], 0.5), (1, ACCEPT, ["front_ball_red"], 1.0))
    _, records = play(chain, FORWARD, PUT_DOWN)
    assert records == [(0.5, False, False, False), SOLVED]


def test_reset_consumes_the_first_label_without_reward() -> None:
    two = problem((0, 1, ["next_ball_red_ball_red"], 1.0), (1, ACCEPT, ["front_ball"], 1.0))
    assert int(reset(two).task) == 0
    pair = parse_level("""
        ##########
        ##oror..##
        ##......##
        ##..^...##
        ##########
    """)
    started = problem((0, 1, ["next_ball_red_ball_red"], 1.0), (1, ACCEPT, ["carrying_ball"], 1.0), level=pair)
    assert int(reset(started).task) == 1
    assert not WORLD.trivial(started, reset(started))
    assert play(started, FORWARD, PICK_UP)[1] == [NOTHING_YET, SOLVED]


def test_reset_takes_one_step_of_the_task_only() -> None:
    chain = problem((0, 1, ["-front_ball"], 0.0), (1, ACCEPT, ["-front_ball"], 1.0))
    assert int(reset(chain).task) == 1


@pytest.mark.parametrize("end", [ACCEPT, REJECT])
def test_a_task_that_the_first_label_ends_is_over_at_the_first_step_with_nothing(end: int) -> None:
    trivial = problem((0, end, ["-front_ball"], 1.0))
    assert WORLD.trivial(trivial, reset(trivial))
    assert play(trivial, TURN_RIGHT)[1] == [(0.0, True, False, False)]


def test_rejection_ends_the_episode_unsolved() -> None:
    avoid = problem((0, REJECT, ["front_ball"], 0.0), (0, ACCEPT, ["carrying_key"], 1.0))
    assert play(avoid, FORWARD)[1] == [(0.0, True, False, False)]


def test_the_step_limit_cuts_a_running_task() -> None:
    far = problem((0, ACCEPT, ["carrying_key_red"], 1.0))
    _, records = play(far, *[TURN_RIGHT] * 5)
    assert records == [NOTHING_YET] * 4 + [(0.0, True, False, True)]


def test_acceptance_at_the_limit_is_no_truncation() -> None:
    pick_ball = problem((0, ACCEPT, ["carrying_ball"], 1.0))
    _, records = play(pick_ball, PUT_DOWN, PUT_DOWN, PUT_DOWN, FORWARD, PICK_UP)
    assert records[-1] == SOLVED


def test_negated_literals_and_unused_slots() -> None:
    both = problem((0, ACCEPT, ["front_ball", "-carrying_key"], 1.0))
    assert play(both, FORWARD)[1] == [SOLVED]
    neither = problem((0, ACCEPT, ["front_ball", "-next_ball_key"], 1.0))
    other = problem((0, 1, [], 0.0), (1, ACCEPT, ["front_ball"], 1.0))
    assert int(reset(other).task) == 1, "an edge without literals is always taken"
    assert play(neither, FORWARD)[1] == [SOLVED], "the key is diagonal to the ball"


def test_restart_selects_whole_trees() -> None:
    pick_ball = problem((0, ACCEPT, ["carrying_ball"], 1.0))
    start = reset(pick_ball)
    later, _ = play(pick_ball, FORWARD)
    for done, expected in ((True, start), (False, later)):
        chosen = restart(jnp.bool_(done), start, later)
        assert all(map(np.array_equal, jax.tree.leaves(chosen), jax.tree.leaves(expected)))


def test_a_world_without_a_map_shows_what_the_domain_shows() -> None:
    fetch = problem((0, ACCEPT, ["carrying_ball"], 1.0))
    state, _ = play(fetch, FORWARD, TURN_RIGHT)
    assert not WORLD.has_map
    assert reset(fetch).seen is state.seen is None
    assert (WORLD.view_shape, WORLD.view_fields) == (WORLD.domain.view_shape, WORLD.domain.view_fields)
    np.testing.assert_array_equal(WORLD.view(fetch.task, state), WORLD.domain.view(state.domain))
    assert WORLD.with_map(True).with_map(False) == WORLD


MAPPED = WORLD.with_map(True)
look = jax.jit(MAPPED.view)
begin_mapped, step_mapped = jax.jit(MAPPED.reset), jax.jit(MAPPED.step)


def marked(task: Problem, *actions: int) -> set[str]:
    """What is marked in the view after some actions; on the map there is no other mark."""
    state = begin_mapped(task)
    for action in actions:
        state, _ = step_mapped(task, state, jnp.int32(action))
    codes = np.asarray(look(task.task, state)).reshape(-1)
    in_view, on_map = (
        {CELL_NAMES[code - MARK] for code in part.tolist() if code >= MARK} for part in (codes[:25], codes[25:])
    )
    assert on_map <= in_view
    assert bool(on_map) == bool(in_view)
    return in_view


def test_what_leads_the_task_on_is_marked() -> None:
    assert marked(problem((0, ACCEPT, ["front_ball"], 1.0))) == {"ball_red"}
    assert marked(problem((0, ACCEPT, ["next_ball_red_key_blue"], 1.0))) == {"ball_red", "key_blue"}
    either = problem((0, ACCEPT, ["front_ball"], 1.0), (0, 1, ["carrying_key"], 0.0), (1, ACCEPT, ["front_ball"], 1.0))
    assert marked(either) == {"ball_red", "key_blue"}
    assert marked(problem((0, ACCEPT, ["front_square"], 1.0))) == set()


def test_what_must_not_be_or_leads_nowhere_is_not_marked() -> None:
    assert marked(problem((0, ACCEPT, ["-front_ball", "carrying_key"], 1.0))) == {"key_blue"}
    assert marked(problem((0, REJECT, ["front_ball"], 0.0), (0, ACCEPT, ["carrying_key"], 1.0))) == {"key_blue"}
    assert marked(problem((0, 0, ["front_ball"], 0.5), (0, ACCEPT, ["carrying_key"], 1.0))) == {"key_blue"}


def forbidden(task: Problem) -> set[int]:
    """The kinds of things that are shown without their colour, in the view and on the map alike."""
    codes = np.asarray(look(task.task, begin_mapped(task))).reshape(-1).tolist()
    in_view, on_map = (
        {code % MARK // 8 for code in part if code % 8 == FORBIDDEN and code != UNSEEN}
        for part in (codes[:25], codes[25:])
    )
    assert in_view == on_map
    return in_view


def test_what_leads_nowhere_is_forbidden() -> None:
    fetch = (0, ACCEPT, ["carrying_key"], 1.0)
    assert forbidden(problem(fetch)) == set()
    assert forbidden(problem((0, REJECT, ["front_ball"], 0.0), fetch)) == {BALL}
    dead_end = problem((0, 1, ["front_ball"], 0.0), (1, 2, ["carrying_key"], 0.0), fetch)
    assert forbidden(dead_end) == {BALL}, "no edge leads from there to acceptance"
    assert marked(dead_end) == {"key_blue"}
    assert forbidden(problem((0, 1, ["front_ball"], 0.0), (1, ACCEPT, ["carrying_key"], 1.0), fetch)) == set()
    both = problem((0, REJECT, ["carrying_key"], 0.0), (0, ACCEPT, ["front_key"], 1.0))
    assert forbidden(both) == {KEY}, "go to it, and do not pick it up"
    assert forbidden(problem((0, REJECT, ["-front_ball", "next_ball_key"], 0.0), fetch)) == {BALL, KEY}


def test_marks_follow_the_task() -> None:
    chain = problem((0, 1, ["front_ball"], 0.0), (1, ACCEPT, ["carrying_key"], 1.0))
    assert marked(chain) == {"ball_red"}
    assert marked(chain, FORWARD) == {"key_blue"}
    assert marked(chain, FORWARD, TURN_RIGHT, PICK_UP) == set(), "it is over"
    hold = problem((0, 1, ["carrying_ball"], 0.0), (1, ACCEPT, ["next_ball_key"], 1.0))
    assert marked(hold, FORWARD, PICK_UP) == {"ball_red", "key_blue"}, "what is carried is seen in the own cell"


class Pile(Struct):
    """A task state that is more than a number."""

    depth: Array
    stack: Array


class Piles(Formalism):
    """A formalism with a stack: push whenever the ball is ahead; two pushes accept."""

    edits = ()

    def initial(self, task: Array) -> Pile:
        return Pile(depth=jnp.int32(0), stack=jnp.zeros(3, jnp.int8))

    def guards(self, task: Array, state: Pile) -> Array:
        return task

    def advance(self, task: Array, state: Pile, holds: Array) -> tuple[Pile, Array]:
        moves = holds[0, 0] & (state.depth < 2)
        stack = jnp.where(moves, state.stack.at[state.depth].set(7), state.stack)
        return Pile(depth=state.depth + moves, stack=stack), jnp.where(moves & (state.depth == 1), 1.0, 0.0)

    def outcome(self, task: Array, state: Pile) -> Array:
        return (state.depth == 2).astype(jnp.int8)


def test_any_tree_is_a_task_state() -> None:
    world = World(Minigrid(MinigridConfig()), Piles(), 5)
    begin, act = jax.jit(world.reset), jax.jit(world.step)
    task = Problem(level=LEVEL, task=jnp.array([[IDS["front_ball"] + 1]], jnp.int16))
    state, rewards = begin(task), []
    for action in (FORWARD, PUT_DOWN):
        state, now = act(task, state, jnp.int32(action))
        rewards.append((float(now.reward), bool(now.accepted)))
    assert rewards == [(0.0, False), (1.0, True)]
    assert state.task.stack.tolist() == [7, 7, 0]
    again = restart(now.done, begin(task), state)
    assert again.task.stack.tolist() == [0, 0, 0]


def test_a_batch_is_its_problems_side_by_side() -> None:
    tasks = [
        problem((0, ACCEPT, [name], 1.0)) for name in ("front_ball", "front_key", "carrying_ball_red", "next_ball_key")
    ]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    start, act = jax.jit(jax.vmap(WORLD.reset))(batch), jax.jit(jax.vmap(WORLD.step))
    states = start
    for action in (FORWARD, PICK_UP):
        states, now = act(batch, states, jnp.full(4, action))
        states = jax.vmap(restart)(now.done, start, states)
    assert now.accepted.tolist() == [False, False, True, False]
    assert states.time.tolist() == [1, 2, 0, 2]
