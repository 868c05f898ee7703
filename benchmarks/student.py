"""How fast the student acts and learns, beside a plain matrix product measured in the same run.

`python benchmarks/student.py` prints a table; `measure_student` is what it is made of. Wall clock is what counts, but
on a shared machine it says little: so the processor time used, divided by the number of cores, is shown beside it.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from atlas.config import DomainConfig, NetworkConfig, PPOConfig, TaskConfig
from atlas.domains.minigrid.domain import Minigrid
from atlas.domains.minigrid.grid import COLOURS, KINDS, VIEW
from atlas.rollout import Player
from atlas.student.network import Student, count
from atlas.student.ppo import Learner, optimiser
from atlas.student.view import Cells
from atlas.tasks.sample import formalism
from atlas.types import Problem
from atlas.world import World

PAPER = NetworkConfig()
SMALL = NetworkConfig(view="dense", view_width=128, task_width=64, recurrent=128, head_width=128, value_init=0.01)


@dataclass(frozen=True)
class Shape:
    """What is measured."""

    name: str
    network: NetworkConfig
    envs: int
    steps: int
    epochs: int
    minibatch: int
    pool: int = 1


SHAPES = (
    Shape("paper", PAPER, envs=64, steps=256, epochs=4, minibatch=32),
    Shape("paper, 32 envs", PAPER, envs=32, steps=512, epochs=4, minibatch=32),
    Shape("paper, bf16", replace(PAPER, bf16=True), envs=64, steps=256, epochs=4, minibatch=32),
    Shape("small", SMALL, envs=256, steps=128, epochs=2, minibatch=64),
    Shape("small, pool of 4", SMALL, envs=256, steps=128, epochs=2, minibatch=64, pool=4),
)


@dataclass(frozen=True)
class Speed:
    """Env steps a second, by wall clock and by processor time a core."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Result:
    """What a measurement says."""

    rollout: Speed
    update: Speed
    both: Speed
    """Rollout and update in one compiled step."""
    compile_seconds: float
    """Of that step."""
    parameters: int
    flops: int
    """Nominal, of one forward pass: a convolution counted as a convolution, two a multiplication and addition."""
    matmul: Speed
    """Floating-point operations a second of a plain product of 2048 x 2048 float32 matrices."""

    def share(self, epochs: int) -> float:
        """Model FLOP/s of the update (a backward pass is two forward passes) over those of the plain product.

        By processor time: the two are measured at different moments, and a busy machine would spoil the ratio.
        """
        return 3 * epochs * self.flops * self.update.processor / self.matmul.processor


def measure_student(shape: Shape, calls: int = 3) -> Result:
    """Play one-room problems with tasks of up to five transitions, and learn from them."""
    student, player, learner = _parts(shape)
    params = jax.jit(student.init)(jax.random.key(0))
    opt_state = learner.optimiser.init(params)
    pools = _problems(player.world, shape)
    key = jax.random.key(1)

    def both(key: Any, params: Any, opt_state: Any, pools: Any) -> Any:
        return learner.learn(key, params, opt_state, player.play_pools(key, params, pools)[0].experience)

    play = jax.jit(lambda *args: player.play_pools(*args)[0].experience)
    experience = play(key, params, pools)
    begin = time.perf_counter()
    step = jax.jit(both).lower(key, params, opt_state, pools).compile()
    compiled = time.perf_counter() - begin
    learn = jax.jit(learner.learn)
    work = shape.envs * shape.steps
    matrix = jnp.ones((2048, 2048))
    return Result(
        rollout=_speed(work, calls, play, key, params, pools),
        update=_speed(work, calls, learn, key, params, opt_state, experience),
        both=_speed(work, calls, step, key, params, opt_state, pools),
        compile_seconds=compiled,
        parameters=count(params),
        flops=nominal_flops(student),
        matmul=_speed(2 * 2048**3, 3 * calls, jax.jit(lambda a: a @ a), matrix),
    )


def _parts(shape: Shape) -> tuple[Student, Player, Learner]:
    domain = Minigrid(DomainConfig(rooms=(1,)))
    world = World(domain, formalism(TaskConfig(), domain.vocabulary)[0], shape.steps)
    cells = Cells(rows=VIEW, cols=VIEW, kinds=len(KINDS), colours=len(COLOURS))
    student = Student(shape.network, cells, domain.num_actions, domain.vocabulary.features)
    ppo = PPOConfig(epochs=shape.epochs, minibatch_envs=shape.minibatch)
    return student, Player(world, student, shape.steps), Learner(student, ppo, optimiser(ppo, 1))


def _problems(world: World, shape: Shape) -> Problem:
    """Level-conditioned problems, `[envs, pool]`."""

    def draw(key: Any) -> Problem:
        key_level, key_task = jax.random.split(key)
        level = world.domain.sample(key_level)
        return Problem(level=level, task=world.formalism.sample(key_task, world.domain.possible(level)))

    keys = jax.random.split(jax.random.key(2), (shape.envs, shape.pool))
    return jax.jit(jax.vmap(jax.vmap(draw)))(keys)


def nominal_flops(student: Student) -> int:
    """Of one step forward, the task encoder left out (it runs once a minibatch)."""
    config, cells = student.config, student.cells.rows * student.cells.cols
    filters = (2 * config.embedding, *config.filters)
    view = sum(cells * 4 * a * b for a, b in pairwise(filters))
    features = cells * filters[-1]
    if config.view == "dense":
        features, view = config.view_width, cells * 2 * config.embedding * config.view_width
    inputs = features + config.action_embedding + config.task_width
    memory = 3 * config.recurrent * (inputs + config.recurrent)
    heads = 2 * config.head_width * (config.recurrent + config.head_width) + config.head_width * (
        student.num_actions + 1
    )
    return 2 * (view + memory + heads)


def _speed(work: float, calls: int, function: Callable[..., Any], *args: Any) -> Speed:
    """Best of several calls: other processes only ever slow one down."""
    jax.block_until_ready(function(*args))
    wall, processor = [], []
    for _ in range(calls):
        begin, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(function(*args))
        wall.append(time.perf_counter() - begin)
        processor.append((time.process_time() - used) / (os.cpu_count() or 1))
    return Speed(work / min(wall), work / min(processor))


def main() -> None:
    """Print a table: env-steps a second by wall clock (by processor time)."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("only", nargs="*", help="names of shapes; all if none is given")
    parser.add_argument("--calls", type=int, default=3, help="the best of so many calls counts")
    args = parser.parse_args()
    print(f"jax {jax.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'shape':<18}{'rollout':>20}{'update':>20}{'both':>20}{'compile':>9}{'matmul':>18}{'update':>9}{'share':>7}",
        flush=True,
    )
    for shape in SHAPES:
        if not args.only or shape.name in args.only:
            print(_row(shape, measure_student(shape, args.calls)), flush=True)


def _row(shape: Shape, result: Result) -> str:
    speeds = (result.rollout, result.update, result.both)
    cells = "".join(f"{f'{speed.wall:,.0f} ({speed.processor:,.0f})':>20}" for speed in speeds)
    matmul = f"{result.matmul.wall / 1e9:.0f} ({result.matmul.processor / 1e9:.0f}) GF"
    nominal = f"{3 * shape.epochs * result.flops * result.update.wall / 1e9:.0f} GF"
    share = f"{result.share(shape.epochs):.0%}"
    return f"{shape.name:<18}{cells}{result.compile_seconds:>7.1f} s{matmul:>18}{nominal:>9}{share:>7}"


if __name__ == "__main__":
    main()
