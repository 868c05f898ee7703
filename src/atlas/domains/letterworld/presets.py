"""The experiments of LetterWorld that have a name."""

from dataclasses import replace

from atlas.config import Config, NetworkConfig, PPOConfig, RunConfig, StudentConfig, TaskConfig
from atlas.domains.letterworld.settings import LetterWorldConfig
from atlas.presets import Preset, tiny
from atlas.ued import DRConfig

NETWORK = NetworkConfig(
    view="dense", view_width=128, queries=8, messages="edge", graph_layers=3, task_width=64, edge_width=32,
    node_noise=0.0, recurrent=128, head_width=128, value_init=0.01,
)  # fmt: skip
PPO = PPOConfig(learning_rate=1e-3, epochs=2, minibatch_envs=32, gamma=0.94, gae_lambda=0.95, entropy=0.05)

QUICK = Config(
    domain=LetterWorldConfig(step_limit=64),
    tasks=TaskConfig(sampler="reach-avoid", max_length=3, min_avoid=0),
    teacher=DRConfig(),
    student=StudentConfig(network=NETWORK, ppo=PPO),
    run=RunConfig(num_envs=128, rollout=64, total_steps=1_000_000_000, time_limit=8.0, snapshot_every=60.0),
)

PRESETS: dict[str, Preset] = {
    "quick-letters": Preset(QUICK, "reach and avoid letters: learns visibly in minutes on two cores"),
    "tiny-letters": Preset(
        replace(
            tiny(LetterWorldConfig(step_limit=16)),
            tasks=TaskConfig(sampler="reach-avoid", max_length=2, min_avoid=0),
        ),
        "seconds, for trying things out in LetterWorld; too small to learn",
    ),
}
