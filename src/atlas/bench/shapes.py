"""The experiments that are timed: the paper's network at a size for two cores, and the small network of `quick`."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from atlas.config import Config, NetworkConfig, PPOConfig, RunConfig, StudentConfig
from atlas.domains.minigrid.grid import ACTIONS, VIEW
from atlas.domains.minigrid.presets import TINY, quick
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.ued import ACCELConfig, BufferConfig, DRConfig, PLRConfig, TeacherConfig


@dataclass(frozen=True)
class Shape:
    """A network, how much it plays in one iteration, and how it learns from that."""

    name: str
    network: NetworkConfig
    ppo: PPOConfig
    envs: int
    steps: int

    @property
    def work(self) -> int:
        """Env steps of one rollout."""
        return self.envs * self.steps

    @property
    def words(self) -> str:
        """The name with the size."""
        return f"{self.name} network, {self.envs} x {self.steps}"

    def acting(self) -> int:
        """Floating-point operations of a rollout."""
        return self.work * flops(self.network)

    def learning(self) -> int:
        """… of an update: backward is twice forward."""
        return 3 * self.ppo.epochs * self.work * flops(self.network)

    def config(self, teacher: TeacherConfig | None = None) -> Config:
        """A whole experiment of this shape, on levels and tasks as in the paper."""
        return Config(
            domain=MinigridConfig(step_limit=self.steps),
            teacher=teacher or DRConfig(pool=1),
            student=StudentConfig(network=self.network, ppo=self.ppo),
            run=RunConfig(num_envs=self.envs, rollout=self.steps),
        )


def _shape_of(name: str, config: Config) -> Shape:
    """The shape of an experiment."""
    return Shape(name, config.student.network, config.student.ppo, config.run.num_envs, config.run.rollout)


PAPER: Final = Shape("paper", NetworkConfig(), PPOConfig(), envs=64, steps=256)
SMALL: Final = _shape_of("small", quick())
TOY: Final = _shape_of("toy", TINY)
"""To see that everything runs."""

BUFFER: Final = BufferConfig(min_fill=0.0)
"""Paper-size, and replayed from as soon as it holds anything."""
TEACHERS: Final[dict[str, tuple[str, TeacherConfig]]] = {
    "dr": ("DR, an iteration", DRConfig()),
    "plr": ("PLR⊥, a replay iteration", PLRConfig(replay_prob=1.0, buffer=BUFFER)),
    "plr-new": ("PLR⊥, an iteration that scores new problems", PLRConfig(replay_prob=0.0, buffer=BUFFER)),
    "accel": ("ACCEL, a replay and an edit iteration", ACCELConfig(replay_prob=1.0, buffer=BUFFER)),
}
"""Settings that make every iteration of the wanted kind, once something is in the buffer."""


def toy(teacher: TeacherConfig) -> TeacherConfig:
    """The same with a buffer that suits the toy shape."""
    if isinstance(teacher, PLRConfig):
        return replace(teacher, buffer=replace(teacher.buffer, capacity=64))
    return teacher


def flops(network: NetworkConfig) -> int:
    """Nominal, of one step forward: a convolution counted as a convolution, two for a multiplication and addition.

    The task encoder is left out: it runs once a rollout and once a minibatch.
    """
    cells = VIEW * VIEW
    filters = (2 * network.embedding, *network.filters)
    view = sum(cells * 4 * a * b for a, b in pairwise(filters))
    features = cells * filters[-1]
    if network.view == "dense":
        features, view = network.view_width, cells * 2 * network.embedding * network.view_width
    inputs = features + network.action_embedding + network.task_width
    memory = 3 * network.recurrent * (inputs + network.recurrent)
    hidden = 2 * network.head_width * (network.recurrent + network.head_width)
    return 2 * (view + memory + hidden + network.head_width * (len(ACTIONS) + 1))
