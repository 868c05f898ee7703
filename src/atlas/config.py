"""All settings, as frozen dataclasses. No JAX in here: `atlas --help` must answer at once.

`setting(default, …)` declares what is allowed; every value is checked when a config is made, so a bad one fails
before any tracing with a sentence that names the key, the value and what is allowed.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final, Literal

from atlas.domains import default_settings
from atlas.settings import SEEDS, DomainSettings, Settings, flat, require, setting, show, to_plain
from atlas.ued import DRConfig, Plan, TeacherConfig

STEP_BYTES: Final = 64
"""Of one step of one environment: the view, a few bytes, the numbers that learning needs."""
MAP_BYTES: Final = 52
"""What a map adds to it, about."""
PROBLEM_BYTES: Final = 500
"""Of one problem in a buffer, at the least: its level, its task, where it came from."""
BOOKKEEPING: Final = (
    "run.seed", "run.snapshot_every", "run.policies", "run.snapshots", "run.keep_at", "run.checkpoint_every",
    "run.keep",
)  # fmt: skip
"""Settings that do not tell two experiments apart."""
LEAST_SHARE: Final = 8
"""Environments of a minibatch for each of several devices of a CPU: with fewer, products become too small."""
TaskSampler = Literal["sequential", "reach-avoid", "parity", "dag", "cyclic", "hierarchical", "authors-dag", "mixed"]
SEQUENCES: Final = ("sequential", "reach-avoid", "parity")
"""Samplers of tasks that are a row of steps."""
MIXABLE: Final = (*SEQUENCES, "dag", "cyclic", "authors-dag")
"""Samplers of flat tasks, which a mixture may be made of."""
Reward = Literal["sparse", "stepwise", "shaped", "outlook"]


@dataclass(frozen=True, kw_only=True)
class TaskConfig(Settings):
    """The tasks that are sampled and edited."""

    section: ClassVar[str] = "tasks"
    sampler: TaskSampler = "sequential"
    """How tasks are drawn: `sequential`; `reach-avoid`, sequences whose steps forbid something until they are done;
    `parity`, sequences whose steps are undone by something; `mixed`, one of those in `mix` for each task; the others
    come from random walks (paper, Appendix A.2)."""
    mix: tuple[str, ...] = ("sequential", "reach-avoid", "dag")
    """What a `mixed` sampler draws with, each as often as it is named."""
    min_length: int = setting(1, at_least=1)
    """Fewest transitions of a sequential task, or steps of a `reach-avoid` or `parity` task."""
    max_length: int = setting(5, at_least=1, at_most=62)
    """Most transitions of a sequential task; its edits stay within it. Machines have one state more."""
    min_avoid: int = setting(1, at_least=0)
    """Fewest propositions that each step of a `reach-avoid` task forbids, or that undo the last step of a `parity`
    task."""
    max_avoid: int = setting(1, at_least=1, at_most=15)
    """Most propositions that a step forbids, or that undo it."""
    states: int = setting(6, at_least=2, at_most=64)
    """States of a random-walk machine (at most; those not on a walk are dropped)."""
    edges: int = setting(5, at_least=1, at_most=16)
    """Edges that may leave one state of a random-walk machine."""
    connectivity: float = setting(1.0, at_least=0.1)
    """Length of a random walk as a multiple of the number of states."""
    restart: float = setting(0.5, at_least=0.0, at_most=1.0)
    """Probability of another walk from the initial state after each walk."""
    max_walks: int = setting(2, at_least=1)
    """Most walks whose edges are joined."""
    constrain: bool = True
    """Keep labels free of tautologies and contradictions (the constraint matrix C). `authors-dag` never does."""
    machines: int = setting(3, at_least=2, at_most=8)
    """Machines of a hierarchical task, the root included; those that no edge happens to call are dropped."""
    structure: Literal["sequential", "dag", "cyclic"] = "dag"
    """How each machine of a hierarchical task is walked."""
    matrix_power: float = setting(1.0, at_least=0.0)
    """The weights of steps in a `dag` or `cyclic` machine are uniform numbers to this power: 0 makes all steps equally
    likely, large values leave few that are taken."""
    matrix_reach: float = setting(1.0, above=0.0, at_most=4.0)
    """… times this for each further state ahead: below 1 prefers the next states (long ways), above 1 shortcuts."""
    prior: tuple[str, ...] = ()
    """Weights of propositions when tasks are sampled, as `PATTERN=NUMBER` with shell patterns over their names, e.g.
    `front_*=3`; the last that fits counts, and those that none fits weigh 1. Edits do not use it."""
    partitions: tuple[float, ...] = setting((), at_least=0.0)
    """Weights of hierarchies in which 1, 2, … machines - 1 machines may call others (the summands of the partition):
    the first are flat, the last deep. None: all partitions alike."""
    call_weight: float = setting(1.0, at_least=0.0)
    """Weight of each possible call on an edge of a hierarchy; no call has weight 1."""
    reward: Reward = "sparse"
    """1 into acceptance; 1 for each move to a new state; shaped by the task's distance to acceptance; or by that of the
    problem, doors that have to be unlocked included, which the domain's relaxed check tells (*outlook*)."""

    def check(self) -> None:
        limit = f"at most tasks.max_length = {self.max_length} is needed"
        require(self.min_length <= self.max_length, self.key("min_length"), self.min_length, limit)
        limit = f"at most tasks.max_avoid = {self.max_avoid} is needed"
        require(self.min_avoid <= self.max_avoid, self.key("min_avoid"), self.min_avoid, limit)
        require(len(self.mix) > 0, self.key("mix"), self.mix, f"one or more of {', '.join(MIXABLE)} are needed")
        for one in self.mix:
            require(one in MIXABLE, self.key("mix"), one, f"one of {', '.join(MIXABLE)} is needed")
        for one in self.prior:
            pattern, _, number = one.rpartition("=")
            with suppress(ValueError):
                if pattern and 0.0 <= float(number) < inf:
                    continue
            require(False, self.key("prior"), one, "PATTERN=NUMBER is needed, with a number of at least 0: front_*=3")
        if self.partitions:
            needed = f"{self.machines - 1} weights are needed (tasks.machines - 1), not all 0"
            fits = len(self.partitions) == self.machines - 1 and any(self.partitions)
            require(fits, self.key("partitions"), self.partitions, needed)

    @property
    def lengths(self) -> range:
        """How many labels the shortest way to acceptance may have."""
        kinds = self.mix if self.sampler == "mixed" else (self.sampler,)
        each = [(self.min_length, self.max_length) if kind in SEQUENCES else (1, self.states - 1) for kind in kinds]
        return range(min(least for least, _ in each), max(most for _, most in each) + 1)


@dataclass(frozen=True, kw_only=True)
class PairingConfig(Settings):
    """How a task and a level become a problem."""

    section: ClassVar[str] = "pairing"
    how: Literal["independent", "level", "task"] = "independent"
    """Task and level apart, the task from what the level holds, or the level from what the task mentions."""
    solvable: bool = False
    """Keep only problems that the relaxed check calls solvable."""
    oversample: int = setting(4, at_least=1, at_most=256)
    """Problems drawn for each one kept when `solvable` is on."""
    minimal: bool = False
    """Generate only the smallest problems: one room, one object, one transition (ACCEL-0). Edits make them larger."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Settings):
    """The policy network. Defaults are the paper's (Appendix C)."""

    section: ClassVar[str] = "student.network"
    view: Literal["conv", "dense"] = "conv"
    """Three 2x2 convolutions, or one dense layer over the whole view (fast on CPUs)."""
    embedding: int = setting(16, at_least=1)
    """Width of each of the tile and colour embeddings."""
    filters: tuple[int, int, int] = setting((32, 64, 64), at_least=1)
    """Filters of the convolutions."""
    view_width: int = setting(128, at_least=1)
    """Width of the dense view layer."""
    queries: int = setting(0, at_least=0, at_most=64)
    """Questions that the task asks about each cell of a dense view ("is it what I look for?"); 0: none."""
    map: bool = False
    """See, beside a dense view, a coarse map of all that was seen in the episode; things that the task asks for are
    marked on it. The domain makes it."""
    task: Literal["graph", "index"] = "graph"
    """Encode the task by its graph, or by the number of its current state alone (ablation)."""
    graph_layers: int = setting(5, at_least=1)
    """Rounds of message passing; 1 is the *myopic* ablation."""
    messages: Literal["mean", "edge"] = "mean"
    """Take the mean of a node's edges as they are, or rectify each first: only then can a student tell which label
    leads where, as avoiding something needs."""
    task_width: int = setting(128, at_least=1)
    """Features of a node."""
    node_noise: float = setting(0.1, at_least=0.0)
    """Variance of the random features that nodes of a task start with: they tell apart nodes that look the same, and
    stand in the way of reading the labels of the others."""
    edge_width: int = setting(64, at_least=1)
    """Features of an edge."""
    literals: Literal["structured", "bound", "independent"] = "structured"
    """Embed literals by what they mean: the features of their objects added up, or each object as a whole, so that a
    red ball and a blue key are not a blue ball and a red key; or each literal on its own (ablation)."""
    action_embedding: int = setting(16, at_least=1)
    """Width of the previous action's embedding."""
    recurrent: int = setting(512, at_least=1)
    """Width of the GRU."""
    task_into_gru: bool = True
    """Feed the task embedding to the GRU; off: only to the heads."""
    head_width: int = setting(256, at_least=1)
    """Width of each of the two hidden layers of actor and critic."""
    value_init: float = setting(1.0, above=0.0)
    """Scale of the value output at the start. Small values keep MaxMC honest early on."""
    bf16: bool = False
    """Compute in bfloat16 (parameters stay float32)."""

    def check(self) -> None:
        for name, none in (("queries", 0), ("map", False)):
            value, needed = getattr(self, name), f"{show(none)} is needed unless student.network.view = dense"
            require(self.view == "dense" or value == none, self.key(name), value, needed)


@dataclass(frozen=True, kw_only=True)
class PPOConfig(Settings):
    """Proximal policy optimisation. Defaults are the paper's."""

    section: ClassVar[str] = "student.ppo"
    learning_rate: float = setting(5e-5, above=0.0)
    """Step size of Adam."""
    anneal: bool = False
    """Let the learning rate fall linearly to zero over the run: over its env steps, or its time if that ends first. A
    run that is stopped by the clock then depends on the machine."""
    average: float = setting(0.0, at_least=0.0, at_most=0.9999)
    """Decay, at each update, of a running average of the parameters, which is then what is examined and kept as the
    policy; 0: the parameters themselves."""
    adam_eps: float = setting(1e-5, above=0.0)
    """Epsilon of Adam."""
    epochs: int = setting(4, at_least=1)
    """Passes over each rollout."""
    minibatch_envs: int = setting(32, at_least=1)
    """Environments a minibatch, each with its whole sequence."""
    phases: int = setting(1, at_least=1)
    """Gradient phases a rollout: 2 splits it in time and learns from each half in turn."""
    gamma: float = setting(0.99, at_least=0.0, at_most=1.0)
    """Discount."""
    gae_lambda: float = setting(0.9, at_least=0.0, at_most=1.0)
    """Lambda of generalised advantage estimation."""
    clip: float = setting(0.2, above=0.0)
    """Range of the policy ratio."""
    value_clip: float | None = setting(0.2, above=0.0)
    """Range of the value update; none: not clipped."""
    value_coefficient: float = setting(0.5, at_least=0.0)
    """Weight of the value loss."""
    entropy: float = setting(0.01, at_least=0.0)
    """Weight of the entropy bonus."""
    max_grad_norm: float = setting(0.5, above=0.0)
    """Gradients are clipped to this norm."""
    normalise: Literal["minibatch", "running", "never"] = "minibatch"
    """Normalise advantages in each minibatch, divide them by a running scale, or leave them as they are."""
    truncation: Literal["terminate", "bootstrap"] = "terminate"
    """What a cut episode is worth: nothing more (the authors' way), or the value of the next state."""


@dataclass(frozen=True, kw_only=True)
class CloningConfig(Settings):
    """Behaviour cloning of the prover's plans beside PPO, at the beginning of a run."""

    section: ClassVar[str] = "student.cloning"
    plans: int = setting(0, at_least=0, at_most=1_000_000)
    """Plans that are shown, for problems drawn as the run draws them; 0: none. They are found before training begins
    and kept with the run."""
    weight: float = setting(1.0, above=0.0)
    """Weight of the cross-entropy of their actions at the start."""
    until: float = setting(0.3, above=0.0, at_most=1.0)
    """The share of the run over which the weight falls linearly to zero; from then on it costs nothing."""


@dataclass(frozen=True, kw_only=True)
class StudentConfig(Settings):
    """Who plays and learns."""

    section: ClassVar[str] = "student"
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The policy network."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """How it learns."""
    cloning: CloningConfig = field(default_factory=CloningConfig)
    """What it is shown."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(Settings):
    """How much, how often, where."""

    section: ClassVar[str] = "run"
    seed: int = setting(0, at_least=0, at_most=SEEDS - 1)
    """Everything random follows from it."""
    num_envs: int = setting(4096, at_least=1)
    """Problems played at once when training."""
    rollout: int = setting(512, at_least=1)
    """Steps of a rollout."""
    total_steps: int = setting(4_194_304_000, at_least=1)
    """Env steps in all: trained and evaluation-only ones alike."""
    time_limit: float | None = setting(None, above=0.0)
    """Minutes of training, without compiling, after which a run stops, if it is not done before."""
    snapshot_every: float = setting(60.0, above=0.0)
    """Seconds between looks at held-out problems and at the curriculum."""
    policies: int = setting(32, at_least=2)
    """Most policies kept, spread evenly over env steps; the untrained and the last one beside them."""
    snapshots: int = setting(8, at_least=2)
    """Most snapshots of the curriculum kept, spread evenly over env steps; the last one beside them."""
    keep_at: tuple[int, ...] = setting((), at_least=1)
    """Env steps at which a policy and a snapshot are kept in any case."""
    checkpoint_every: float = setting(60.0, above=0.0)
    """Seconds between checkpoints."""
    keep: int = setting(3, at_least=1)
    """How many of the last checkpoints stay."""


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """A whole experiment."""

    domain: DomainSettings = field(default_factory=default_settings)
    """Levels."""
    tasks: TaskConfig = field(default_factory=TaskConfig)
    """Tasks."""
    pairing: PairingConfig = field(default_factory=PairingConfig)
    """Problems."""
    teacher: TeacherConfig = field(default_factory=DRConfig)
    """Who proposes problems."""
    student: StudentConfig = field(default_factory=StudentConfig)
    """Who plays and learns."""
    run: RunConfig = field(default_factory=RunConfig)
    """How much, how often, where."""

    def check(self) -> None:
        run, ppo = self.run, self.student.ppo
        require(
            not self.pairing.solvable or self.tasks.sampler != "hierarchical",
            "pairing.solvable", True, "the relaxed check needs flat tasks, not tasks.sampler = hierarchical",
        )  # fmt: skip
        edits = self.plan.edits
        require(
            edits is None or not edits.screen or self.tasks.sampler != "hierarchical",
            "teacher.edits.screen", True, "the relaxed check needs flat tasks, not tasks.sampler = hierarchical",
        )  # fmt: skip
        require(
            self.tasks.reward != "outlook" or self.tasks.sampler != "hierarchical",
            "tasks.reward", "outlook", "the relaxed check needs flat tasks, not tasks.sampler = hierarchical",
        )  # fmt: skip
        require(
            self.plan.prove is None or self.tasks.reward == "sparse",
            "tasks.reward", self.tasks.reward, "sparse is needed where teacher.score = oracle",
        )  # fmt: skip
        require(
            run.num_envs % ppo.minibatch_envs == 0,
            "student.ppo.minibatch_envs", ppo.minibatch_envs, f"a divisor of run.num_envs = {run.num_envs}",
        )  # fmt: skip
        require(
            run.rollout % ppo.phases == 0,
            "student.ppo.phases", ppo.phases, f"a divisor of run.rollout = {run.rollout}",
        )  # fmt: skip
        if self.plan.score is not None:
            require(
                run.rollout >= self.domain.step_limit,
                "run.rollout", run.rollout,
                f"at least domain.step_limit = {self.domain.step_limit}: scores need finished episodes",
            )  # fmt: skip
        if self.student.cloning.plans:
            require(
                run.rollout >= self.domain.step_limit * ppo.phases,
                "run.rollout", run.rollout,
                f"at least domain.step_limit x student.ppo.phases = {self.domain.step_limit * ppo.phases} is needed "
                "with student.cloning.plans: they are shown to their end",
            )  # fmt: skip

    @property
    def plan(self) -> Plan:
        """What the teacher's settings mean in this experiment."""
        return self.teacher.plan(self.run.num_envs, self.pairing.minimal)

    def env_steps(self, iterations: int, trained: int) -> int:
        """Env steps played in so many iterations, `trained` of them with an update."""
        only_scored = (iterations - trained) * (self.plan.num_eval or 0)
        return self.run.rollout * (trained * self.plan.num_train + only_scored)

    @property
    def experiment(self) -> str:
        """The settings that tell experiments apart, as text: the same for runs that differ by their seeds alone."""
        return str({key: value for key, value in flat(to_plain(self)).items() if key not in BOOKKEEPING})

    @property
    def longest_iteration(self) -> int:
        """Env steps of the longer kind of iteration."""
        return max(self.env_steps(1, 0), self.env_steps(1, 1))

    def least_memory(self) -> dict[str, int]:
        """Bytes that a run holds at the least, by the settings that ask for them."""
        run, plan = self.run, self.plan
        envs = max(plan.num_train, plan.num_eval or 0)
        by = "run.num_envs" if envs == run.num_envs else "teacher.num_eval"
        each = STEP_BYTES + (MAP_BYTES if self.student.network.map else 0)
        steps = {f"{by} = {envs:,} x run.rollout = {run.rollout:,} steps": envs * run.rollout * each}
        if plan.buffer is None:
            return steps
        capacity = plan.buffer.capacity
        return steps | {f"teacher.buffer.capacity = {capacity:,} problems": capacity * PROBLEM_BYTES}

    def require_even(self, shards: int) -> None:
        """Fail unless so many devices can share the work evenly."""
        words = f"a multiple of the number of devices, {shards}, is needed"
        for key, number in self._shared().items():
            require(number % shards == 0, key, number, words)

    def worthwhile_shards(self, cores: int) -> int:
        """How many devices should share a CPU: one a core, or the next smaller number that divides the work evenly and
        leaves each enough of a minibatch. Otherwise one, which uses all cores as well as it can."""
        most = min(cores, self.student.ppo.minibatch_envs // LEAST_SHARE)
        return max(filter(self.is_shared_by, range(1, most + 1)), default=1)

    def is_shared_by(self, shards: int) -> bool:
        """Whether so many devices can share the work evenly."""
        return shards > 0 and not any(number % shards for number in self._shared().values())

    def _shared(self) -> dict[str, int]:
        """What devices divide among themselves."""
        return {
            "run.num_envs": self.run.num_envs,
            "student.ppo.minibatch_envs": self.student.ppo.minibatch_envs,
            "teacher.num_eval": self.plan.num_eval or 0,
        }
