"""The experiments of Minigrid that have a name: the paper's at the paper's scale, small ones for small machines."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from atlas.config import (
    CloningConfig,
    Config,
    NetworkConfig,
    PairingConfig,
    PPOConfig,
    Reward,
    RunConfig,
    StudentConfig,
    TaskConfig,
    TaskSampler,
)
from atlas.domains.minigrid.settings import MinigridConfig
from atlas.presets import Preset, tiny
from atlas.ued import (
    ACCELConfig,
    BufferConfig,
    DRConfig,
    EchoConfig,
    EditConfig,
    PLRConfig,
    ScoutConfig,
    SFLConfig,
    TeacherConfig,
)

DAG_STEPS = 6_291_456_000

PAPER_TEACHERS: dict[str, tuple[TeacherConfig, bool, str]] = {
    "dr": (DRConfig(), False, "domain randomisation"),
    "plr": (PLRConfig(replay_prob=0.5), False, "robust PLR"),
    "accel": (ACCELConfig(replay_prob=0.9), False, "ACCEL"),
    "accel0": (ACCELConfig(replay_prob=0.99), True, "ACCEL from the smallest problems"),
}
"""Teacher as in the paper's table, whether the generator is minimal, its name in words."""

PAIRINGS = {"": ("independent", "independent sampling"), "-level": ("level", "level-conditioned sampling")}


def paper(teacher: str, pairing: str = "independent", **changes: Any) -> Config:
    """One of the paper's core experiments; `changes` replace settings of the teacher."""
    settings, minimal, _ = PAPER_TEACHERS[teacher]
    return Config(
        pairing=PairingConfig(how=pairing, minimal=minimal),  # type: ignore[arg-type]
        teacher=replace(settings, **changes),
    )


def _core() -> Iterator[tuple[str, Preset]]:
    for name, (_, _, words) in PAPER_TEACHERS.items():
        for suffix, (pairing, how) in PAIRINGS.items():
            yield f"paper-{name}{suffix}", Preset(paper(name, pairing), f"the paper's {words}, {how}")


def _dag() -> Iterator[tuple[str, Preset]]:
    samplers: dict[str, tuple[TaskSampler, str]] = {
        "paper-dag": ("authors-dag", "DAG tasks"),
        "paper-own-dag": ("dag", "DAG tasks as the paper describes them, which its runs did not use"),
    }
    for prefix, (sampler, tasks) in samplers.items():
        for name in ("dr", "plr"):
            for suffix, (pairing, how) in PAIRINGS.items():
                config = replace(
                    paper(name, pairing),
                    tasks=TaskConfig(sampler=sampler),
                    run=RunConfig(total_steps=DAG_STEPS),
                )
                words = PAPER_TEACHERS[name][2]
                yield f"{prefix}-{name}{suffix}", Preset(config, f"ablation: {words} on {tasks}, {how}")


def _conditioning() -> Iterator[tuple[str, Preset]]:
    networks = {
        "index": (NetworkConfig(task="index"), "the number of the task's state instead of its graph"),
        "myopic": (NetworkConfig(graph_layers=1), "one round of message passing"),
        "independent-literals": (NetworkConfig(literals="independent"), "an embedding of its own for each literal"),
    }
    for name, (network, words) in networks.items():
        config = replace(paper("plr"), student=StudentConfig(network=network))
        yield f"paper-plr-{name}", Preset(config, f"ablation: robust PLR with {words}")


def _edits() -> Iterator[tuple[str, Preset]]:
    for name in ("accel", "accel0"):
        for count in (1, 3, 20):
            edits = EditConfig(least=count, most=count)
            yield (
                f"paper-{name}-edits-{count}",
                Preset(
                    paper(name, edits=edits),
                    f"ablation: {PAPER_TEACHERS[name][2]} with {count} edit{'s' * (count > 1)} a child",
                ),
            )
    kinds = {
        "l": EditConfig(task=False, hindsight=False),
        "t": EditConfig(level=False, hindsight=False),
        "lt": EditConfig(hindsight=False),
        "lh": EditConfig(task=False),
        "th": EditConfig(level=False),
    }
    words = {"l": "level", "t": "task", "h": "hindsight"}
    for name, edits in kinds.items():
        kept = " and ".join(words[letter] for letter in name)
        yield f"paper-accel-{name}", Preset(paper("accel", edits=edits), f"ablation: ACCEL with {kept} edits only")
    yield (
        "paper-accel0-lt",
        Preset(paper("accel0", edits=kinds["lt"]), "ablation: ACCEL from the smallest problems without hindsight"),
    )


def _scores() -> Iterator[tuple[str, Preset]]:
    for name in ("plr", "accel", "accel0"):
        for suffix, (pairing, how) in PAIRINGS.items():
            config = paper(name, pairing, score="pvl")
            words = PAPER_TEACHERS[name][2]
            yield f"paper-{name}-pvl{suffix}", Preset(config, f"ablation: {words} scored by PVL, {how}")


SMALL_NETWORK = NetworkConfig(
    view="dense", view_width=128, task_width=64, edge_width=32, recurrent=128, head_width=128, value_init=0.01
)
SMALL_PPO = PPOConfig(learning_rate=1e-3, epochs=2, minibatch_envs=32)

SMALL_ACCEL = ACCELConfig(replay_prob=0.8, num_eval=512, edits=EditConfig(least=1, most=5))

SMALL_TEACHERS: dict[str, tuple[TeacherConfig, bool]] = {
    "dr": (DRConfig(), False),
    "plr": (PLRConfig(replay_prob=0.5, num_eval=2048), False),
    "accel": (SMALL_ACCEL, False),
    "accel0": (ACCELConfig(replay_prob=0.9, num_eval=512, edits=EditConfig(least=1, most=5)), True),
}
"""Teachers for small machines, and whether the generator is minimal. Scoring is cheap, so more problems are scored
than trained on; a batch is small, so no problem should stand in it twice."""


def small(teacher: str, buffer: int, domain: MinigridConfig, tasks: TaskConfig, run: RunConfig) -> Config:
    """An experiment for a small machine: independent sampling, a small network, many small gradient steps."""
    settings, minimal = SMALL_TEACHERS[teacher]
    if isinstance(settings, PLRConfig):
        settings = replace(settings, buffer=BufferConfig(capacity=buffer, replacement=False))
    return Config(
        domain=domain,
        tasks=tasks,
        pairing=PairingConfig(minimal=minimal),
        teacher=settings,
        student=StudentConfig(network=SMALL_NETWORK, ppo=SMALL_PPO),
        run=run,
    )


def quick(teacher: str) -> Config:
    """One and two rooms, up to three transitions: minutes on two cores."""
    return small(
        teacher,
        4_000,
        MinigridConfig(rooms=(1, 2), step_limit=128),
        TaskConfig(max_length=3),
        RunConfig(num_envs=128, rollout=128, total_steps=1_000_000_000, time_limit=8.0, snapshot_every=60.0),
    )


def laptop(teacher: str) -> Config:
    """All rooms and lengths of the paper: an hour or two on two cores.

    The way through six rooms is long, so episodes are twice as long as in `quick` and batches half as wide.
    """
    config = small(
        teacher,
        10_000,
        MinigridConfig(step_limit=256),
        TaskConfig(),
        RunConfig(num_envs=64, rollout=256, total_steps=1_000_000_000, time_limit=60.0, snapshot_every=300.0),
    )
    settings = config.teacher
    if isinstance(settings, PLRConfig) and settings.num_eval is not None:
        settings = replace(settings, num_eval=settings.num_eval // 2)
    ppo = replace(config.student.ppo, minibatch_envs=16)
    return replace(config, teacher=settings, student=replace(config.student, ppo=ppo))


INFORMED_EDITS = replace(SMALL_ACCEL.edits, screen=True)

MORE_TEACHERS: dict[str, tuple[TeacherConfig, bool, str]] = {
    "accel-posterior": (replace(SMALL_ACCEL, score="posterior"), False, "ACCEL scored by posterior learnability"),
    "accel-mna": (replace(SMALL_ACCEL, score="mna"), False, "ACCEL scored by negative advantage"),
    "accel-edits": (
        replace(SMALL_ACCEL, edits=replace(SMALL_ACCEL.edits, learn=True)),
        False,
        "ACCEL that learns which edits pay",
    ),
    "echo": (EchoConfig(), False, "tasks read off what was played"),
    "dr-informed": (DRConfig(), True, "domain randomisation"),
    "accel-informed": (replace(SMALL_ACCEL, edits=INFORMED_EDITS), True, "ACCEL, its children screened"),
    "accel-edits-informed": (
        replace(SMALL_ACCEL, edits=replace(INFORMED_EDITS, learn=True)),
        True,
        "ACCEL that learns which edits pay, its children screened",
    ),
    "accel-oracle": (
        replace(SMALL_ACCEL, score="oracle", edits=INFORMED_EDITS),
        True,
        "ACCEL scored by regret against the prover's plans, its children screened",
    ),
    "sfl": (SFLConfig(num_eval=512), True, "sampling for learnability"),
    "scout": (ScoutConfig(), True, "solve rates predicted from features of problems"),
}
"""Teachers beyond the paper's: their settings, whether problems are level-conditioned and screened, and words."""


def more(teacher: str, base: Config) -> Config:
    """A teacher beyond the paper's in the place of the one of a small experiment."""
    settings, informed, _ = MORE_TEACHERS[teacher]
    if isinstance(settings, PLRConfig) and isinstance(base.teacher, PLRConfig):
        settings = replace(settings, buffer=base.teacher.buffer, num_eval=base.teacher.num_eval)
    if isinstance(settings, SFLConfig) and isinstance(base.teacher, PLRConfig):
        settings = replace(settings, num_eval=base.teacher.num_eval)
    if informed:
        oversample = 2 if isinstance(settings, ScoutConfig) else base.pairing.oversample
        base = replace(base, pairing=replace(base.pairing, how="level", solvable=True, oversample=oversample))
    return replace(base, teacher=settings)


def _more() -> Iterator[tuple[str, Preset]]:
    for name, (_, informed, words) in MORE_TEACHERS.items():
        track = "informed" if informed else "blind"
        yield f"quick-{name}", Preset(more(name, quick("accel")), f"quick-accel with {words} ({track})")
    for name in ("dr-informed", "accel-informed", "sfl", "scout", "echo"):
        words = MORE_TEACHERS[name][2]
        yield f"laptop-{name}", Preset(more(name, laptop("accel")), f"laptop-accel with {words}")


def guided(config: Config, reward: Reward) -> Config:
    """A small experiment with rewards on the way, a map of what was seen, states of a task without random features,
    longer credit, and a schedule. Which problems there are stays as it was."""
    network = replace(config.student.network, node_noise=0.0, map=True)
    ppo = replace(config.student.ppo, gamma=0.995, gae_lambda=0.95, truncation="bootstrap", anneal=True, average=0.98)
    return replace(
        config, tasks=replace(config.tasks, reward=reward), student=replace(config.student, network=network, ppo=ppo)
    )


def coached(config: Config) -> Config:
    """A blind experiment with all that helps: tasks of what their level holds, screened by the relaxed check; Scout,
    which trains on all that it plays; rewards for progress, doors that have to be unlocked included; a running scale of
    advantages; and the rest of `guided`."""
    config = guided(config, "outlook")
    return replace(
        config,
        pairing=PairingConfig(how="level", solvable=True),
        teacher=ScoutConfig(),
        student=replace(config.student, ppo=replace(config.student.ppo, normalise="running")),
    )


def blind() -> Config:
    """`laptop-accel` with all that helps and asks no solver; its children are edited as often as the paper's."""
    config = guided(laptop("accel"), "shaped")
    assert isinstance(config.teacher, ACCELConfig)
    return replace(config, teacher=replace(config.teacher, edits=EditConfig()))


def varied(config: Config, traps: float, shown: float) -> Config:
    """Mazes and traps among the levels, too, and plans to imitate for a share of the run. Nine rooms are not: they have
    twelve doors, and the check's work doubles with each."""
    assert isinstance(config.domain, MinigridConfig)
    return replace(
        config,
        domain=replace(config.domain, walls=0.2, traps=traps),
        pairing=replace(config.pairing, oversample=2),  # mazes are slow to check
        student=replace(config.student, cloning=CloningConfig(plans=4000, until=shown)),
    )


def night() -> Config:
    """As `laptop`, with bans and branches among the tasks and more traps, for eight hours. The edges of a task are
    rectified one by one: the student must tell what leads on from what is forbidden."""
    config = varied(coached(laptop("dr")), traps=0.3, shown=0.02)
    network = replace(config.student.network, messages="edge")
    return replace(
        config,
        tasks=replace(config.tasks, sampler="mixed", mix=("sequential", "sequential", "reach-avoid", "dag")),
        student=replace(config.student, network=network),
        run=replace(config.run, time_limit=480.0, total_steps=10_000_000_000),
    )


def _small() -> Iterator[tuple[str, Preset]]:
    yield (
        "quick",
        Preset(coached(quick("dr")), "one and two rooms: learns visibly in minutes on two cores (default; coached)"),
    )
    yield (
        "laptop",
        Preset(
            varied(coached(laptop("dr")), traps=0.1, shown=0.1),
            "up to six rooms, mazes and traps, an hour on two cores (coached)",
        ),
    )
    yield "night", Preset(night(), "as laptop with tasks that forbid and branch, eight hours on two cores (coached)")
    yield "laptop-blind", Preset(blind(), "laptop-accel with a map, rewards for progress and a schedule, blind")
    for name in SMALL_TEACHERS:
        words = PAPER_TEACHERS[name][2]
        yield f"quick-{name}", Preset(quick(name), f"{words} on one and two rooms, blind as in the paper")
        yield f"laptop-{name}", Preset(laptop(name), f"{words} on up to six rooms, an hour on two cores, blind")


TINY = tiny(MinigridConfig(rooms=(1, 2), step_limit=8))

PRESETS: dict[str, Preset] = {
    **dict(_small()),
    **dict(_more()),
    "tiny": Preset(
        tiny(MinigridConfig(rooms=(1, 2), step_limit=8)), "seconds, for trying things out; too small to learn"
    ),
    **dict(_core()),
    **dict(_dag()),
    **dict(_conditioning()),
    **dict(_edits()),
    **dict(_scores()),
}
