"""From a config to functions: the only place where a name becomes one."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float32, Key

from atlas.config import ACCELConfig, Config, DRConfig, EditConfig, PLRConfig
from atlas.devices import ALONE, Layout
from atlas.domains import domain_of, surface_of
from atlas.problems import SampleBatchFn, batch_sampler, editor
from atlas.rollout import Player, Rollout
from atlas.settings import require
from atlas.student import ppo
from atlas.student.encode import Cells
from atlas.student.network import Student
from atlas.student.ppo import Learner, Losses, gradient_steps, optimiser
from atlas.tasks.sample import formalism
from atlas.training import Play, Trainer
from atlas.types import Partial, Problem
from atlas.ued.scores import SCORES, Played
from atlas.ued.supply import Supply
from atlas.ued.teachers import TEACHERS
from atlas.world import World


@dataclass(frozen=True)
class Parts:
    """What an experiment is made of."""

    config: Config
    world: World
    student: Student
    player: Player
    sample: SampleBatchFn
    """Draws problems as the settings say."""


def parts(config: Config, layout: Layout = ALONE) -> Parts:
    """World, student, player and sampler of a config."""
    domain = domain_of(config.domain)
    ppo = config.student.ppo
    tasks, _ = formalism(config.tasks, domain.vocabulary, ppo.gamma, domain.mask, config.pairing.minimal)
    world = World(domain, tasks, config.domain.step_limit)
    cells = Cells(*domain.view_shape, domain.view_fields)
    student = Student(config.student.network, cells, len(domain.actions), domain.vocabulary.features)
    player = Player(world, student, config.run.rollout, ppo.phases, ppo.truncation == "bootstrap", layout)
    check = solvability_check(config) if config.pairing.solvable else None
    return Parts(config, world, student, player, batch_sampler(config.pairing, domain, tasks, check))


def solvability_check(config: Config) -> Callable[[Problem], Array]:
    """The domain's cheap check, for the levels of a config."""
    require(
        config.tasks.sampler != "hierarchical",
        "pairing.solvable", True, "the relaxed check needs flat tasks, not tasks.sampler = hierarchical",
    )  # fmt: skip
    return surface_of(config.domain.name).screen(config.domain)


def build(config: Config, layout: Layout = ALONE) -> Trainer:
    """The whole experiment as pure functions."""
    require_even(config, layout.shards)
    made = parts(config, layout)
    ppo = config.student.ppo
    adam = optimiser(ppo, expected_updates(config) * gradient_steps(ppo, config.run.num_envs))
    learner = Learner(made.student, ppo, adam, layout)
    teacher = TEACHERS[config.teacher.name](config.teacher, _supply(made))

    def begin(key: Key[Array, ""]) -> tuple[Any, Any]:
        params = made.student.init(key)
        return params, adam.init(params)

    return Trainer(
        teacher=teacher,
        score=SCORES[teacher.score],
        begin=begin,
        play=_play(made, teacher.pool),
        learn=learner.learn,
        no_losses=Losses(**{field.name: jnp.zeros(()) for field in dataclasses.fields(Losses)}),
        resume=_resume(made, teacher.pool),
        layout=layout,
    )


def require_even(config: Config, shards: int) -> None:
    """Whether so many devices can share the work of a config evenly."""
    run, teacher, words = config.run, config.teacher, f"a multiple of the number of devices, {shards}, is needed"
    require(run.num_envs % shards == 0, "run.num_envs", run.num_envs, words)
    minibatch = config.student.ppo.minibatch_envs
    require(minibatch % shards == 0, "student.ppo.minibatch_envs", minibatch, words)
    if isinstance(teacher, PLRConfig) and teacher.num_eval is not None:
        require(teacher.num_eval % shards == 0, "teacher.num_eval", teacher.num_eval, words)


def _supply(made: Parts) -> Supply:
    """Where the teacher of an experiment gets problems from."""
    teacher, world = made.config.teacher, made.world
    edits = teacher.edits if isinstance(teacher, ACCELConfig) else EditConfig(least=1, most=1)
    return Supply(
        sample=made.sample,
        edit=editor(edits, world.domain, world.formalism),
        partial=jax.eval_shape(lambda: _partial(world, made.sample(jax.random.key(0), 1))),
        max_edits=edits.most,
        num_envs=made.config.run.num_envs,
    )


def _partial(world: World, batch: Problem) -> Partial:
    """Partial progress on the first problem of a batch: its shapes are what matters."""
    problem = jax.tree.map(lambda x: x[0], batch)
    return Partial(level=problem.level, task_state=world.reset(problem).task, valid=jnp.array(False))


def _play(made: Parts, pool: int) -> Callable[[Key[Array, ""], Any, Problem, Any], Play]:
    """A rollout in the form that the trainer wants."""
    ppo = made.config.student.ppo

    def play(key: Key[Array, ""], params: Any, problems: Problem, resume: Any) -> Play:
        rollout, running = made.player.play_pools(key, params, _pools(problems, pool), resume)
        return Play(
            rollout=rollout.experience,
            played=_played(rollout, ppo.gamma, ppo.gae_lambda),
            trivial=rollout.trivial[:, 0],
            partial=rollout.partial,
            resume=None if resume is None else running,
        )

    return play


def _played(rollout: Rollout, gamma: float, lam: float) -> Played:
    steps = rollout.steps
    advantage: Float32[Array, "time envs"] = ppo.advantages(
        steps.reward, steps.value, steps.done, steps.cut_value, rollout.experience.last_value, gamma, lam
    )
    return Played(value=steps.value, advantage=advantage, reward=steps.reward, done=steps.done, accepted=steps.accepted)


def _resume(made: Parts, pool: int) -> Any:
    """What the first rollout goes on with, for a teacher that carries episodes over."""
    teacher = made.config.teacher
    if not (isinstance(teacher, DRConfig) and teacher.carry):
        return None
    envs = made.config.run.num_envs
    return made.player.idle(jax.eval_shape(lambda: _pools(made.sample(jax.random.key(0), envs * pool), pool)))


def _pools(problems: Problem, pool: int) -> Problem:
    """Problems by environment: those of one stand together."""
    return jax.tree.map(lambda x: x.reshape(-1, pool, *x.shape[1:]), problems)


def expected_updates(config: Config) -> int:
    """Iterations with an update that a run makes, on average and once the buffer is filled: for annealing."""
    run, teacher = config.run, config.teacher
    if isinstance(teacher, DRConfig) or teacher.train_on_new:
        return max(1, run.total_steps // (run.num_envs * run.rollout))
    evaluated = teacher.num_eval or run.num_envs
    replay = teacher.replay_prob
    only_scored = (1 - replay) + (replay if isinstance(teacher, ACCELConfig) else 0.0)
    problems = replay * run.num_envs + only_scored * evaluated
    return max(1, int(run.total_steps / (problems * run.rollout) * replay))


def env_steps(config: Config, iterations: int, trained: int) -> int:
    """Env steps played in so many iterations, `trained` of them with an update."""
    run, teacher = config.run, config.teacher
    evaluated = run.num_envs
    if isinstance(teacher, PLRConfig) and not teacher.train_on_new:
        evaluated = teacher.num_eval or run.num_envs
    return run.rollout * (trained * run.num_envs + (iterations - trained) * evaluated)
