"""The policy network (view, task and previous action -> GRU -> logits and value), and the experience it learns from."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float32, Int, Int8, Int32, Integer, Key, UInt8

from atlas.config import NetworkConfig
from atlas.struct import Struct
from atlas.student import encode, layers
from atlas.student.layers import Dense, Normals, dense, initialise, linear, orthogonal, plus, product, table
from atlas.types import Graph

HIDDEN_GAIN, POLICY_GAIN = 2.0, 0.1


class Head(Struct):
    """Two hidden layers and an output."""

    hidden: tuple[Dense, Dense]
    output: Dense


class Params(Struct):
    """Parameters of the whole network."""

    view: encode.View
    task: encode.Encoder
    actions: Float32[Array, "actions_and_none width"]
    """Embedding of the previous action; the last row is "none"."""
    gru: layers.GRU
    actor: Head
    critic: Head


class Observation(Struct):
    """The input of a step, in bytes."""

    view: UInt8[Array, "*lead rows cols"]
    nodes: Int[Array, "*lead depth"]
    """Rows of the table of task embeddings for the current task state; -1 unused."""
    previous: UInt8[Array, "*lead"]
    """The previous action; ignored where an episode starts."""
    start: Bool[Array, "*lead"]
    """First step of an episode: the hidden state is reset and there is no previous action."""


@dataclass(frozen=True, eq=False)
class Student:
    """The network as functions of its parameters, on batches of environments; a time axis, if any, comes first."""

    config: NetworkConfig
    cells: encode.Cells
    """What views are made of."""
    num_actions: int
    features: np.ndarray
    """`float32[props, groups, codes]`, from the vocabulary: features of the propositions."""

    @property
    def dtype(self) -> DTypeLike:
        """Type in which products are computed."""
        return jnp.bfloat16 if self.config.bf16 else jnp.float32

    def init(self, key: Key[Array, ""]) -> Params:
        """Random parameters."""
        return initialise(key, self._make)

    def _make(self, normals: Normals) -> Params:
        config = self.config
        inputs = encode.width(config, self.cells) + config.action_embedding
        inputs += config.task_width if config.task_into_gru else 0
        memory = config.recurrent + (0 if config.task_into_gru else config.task_width)
        return Params(
            view=encode.init_view(normals, config, self.cells),
            task=encode.init_task(normals, config, self.features),
            actions=table(normals, self.num_actions + 1, config.action_embedding),
            gru=layers.init_gru(normals, inputs, config.recurrent),
            actor=_init_head(normals, memory, config.head_width, self.num_actions, POLICY_GAIN),
            critic=_init_head(normals, memory, config.head_width, 1, config.value_init),
        )

    def initial_hidden(self, envs: int) -> Float32[Array, "{envs} width"]:
        """Zeros."""
        return jnp.zeros((envs, self.config.recurrent))

    def embed(self, params: Params, keys: Key[Array, "envs"], graphs: Graph) -> Float32[Array, "envs rows width"]:
        """A table of task embeddings for each environment. `graphs` is batched `[envs, pool]`; node n of the p-th task
        of a pool is row `p * nodes + n`. The keys fix the random node features."""

        def one(key: Key[Array, ""], graph: Graph) -> Float32[Array, "nodes width"]:
            return encode.encode_task(params.task, self.config, self.features, key, graph, self.dtype)

        envs, pool = graphs.outcome.shape[:2]
        tables = jax.vmap(jax.vmap(one))(jax.vmap(lambda key: jax.random.split(key, pool))(keys), graphs)
        return tables.reshape(envs, -1, tables.shape[-1])

    def step(
        self,
        params: Params,
        tables: Float32[Array, "envs rows width"],
        seen: Observation,
        hidden: Float32[Array, "envs memory"],
    ) -> tuple[Float32[Array, "envs memory"], Float32[Array, "envs actions"], Float32[Array, "envs"]]:
        """One step of acting: the next hidden state, the logits of the actions, the value."""
        task = jax.vmap(encode.look_up)(tables, seen.nodes)
        projected = self._project(params, task, seen)
        hidden = layers.gru_step(params.gru, projected, seen.start, hidden, self.dtype)
        return hidden, *self._decide(params, task, hidden)

    def unroll(
        self,
        params: Params,
        tables: Float32[Array, "envs rows width"],
        seen: Observation,
        hidden: Float32[Array, "envs memory"],
    ) -> tuple[Float32[Array, "time envs actions"], Float32[Array, "time envs"]]:
        """Logits and values along whole sequences, equal to those of `step`; used for learning."""
        task = jax.vmap(encode.look_up, (0, 1), 1)(tables, seen.nodes)
        projected = self._project_all(params, tables, task, seen)
        memory = layers.gru_unroll(params.gru, projected, seen.start, hidden, self.dtype)
        return self._decide(params, task, memory)

    def _project(
        self, params: Params, task: Float32[Array, "*lead width"], seen: Observation
    ) -> Float32[Array, "*lead gates"]:
        """The inputs of the GRU, projected to its gates: everything that does not depend on the hidden state."""
        parts = [
            encode.encode_view(params.view, self.config, seen.view, task, self.dtype),
            jnp.dot(jax.nn.one_hot(self._previous(seen), self.num_actions + 1), params.actions),
        ]
        parts += [task] if self.config.task_into_gru else []
        return layers.gru_inputs(params.gru, jnp.concatenate(parts, -1), self.dtype)

    def _project_all(
        self,
        params: Params,
        tables: Float32[Array, "envs rows width"],
        task: Float32[Array, "time envs width"],
        seen: Observation,
    ) -> Float32[Array, "time envs gates"]:
        """`_project` for whole sequences. What comes from a table is projected once a row and then looked up, instead
        of being looked up and projected at every step."""
        inputs, view = params.gru.inputs, encode.encode_view(params.view, self.config, seen.view, task, self.dtype)
        ends = (view.shape[-1], view.shape[-1] + self.config.action_embedding)
        of_view, of_action, of_task = jnp.split(inputs.kernel, ends)
        actions = plus(product(params.actions, of_action, self.dtype), inputs.bias)
        gates = layers.long_product(view.reshape(-1, ends[0]), of_view, self.dtype).reshape(*view.shape[:-1], -1)
        gates = gates + actions[self._previous(seen)]
        if not self.config.task_into_gru:
            return gates
        if tables.shape[1] > len(task):  # more rows than steps
            return gates + product(task, of_task, self.dtype)
        return gates + jax.vmap(encode.look_up, (0, 1), 1)(product(tables, of_task, self.dtype), seen.nodes)

    def _previous(self, seen: Observation) -> UInt8[Array, "*lead"]:
        """The previous action, or "none" where an episode starts."""
        return jnp.where(seen.start, jnp.uint8(self.num_actions), seen.previous)

    def _decide(
        self, params: Params, task: Float32[Array, "*lead width"], memory: Float32[Array, "*lead memory"]
    ) -> tuple[Float32[Array, "*lead actions"], Float32[Array, "*lead"]]:
        """Logits and value."""
        known = memory if self.config.task_into_gru else jnp.concatenate([memory, task], -1)
        return _head(params.actor, known, self.dtype), _head(params.critic, known, self.dtype)[..., 0]


def _init_head(normals: Normals, inputs: int, width: int, outputs: int, gain: float) -> Head:
    return Head(
        hidden=(
            linear(orthogonal(normals, HIDDEN_GAIN, inputs, width)),
            linear(orthogonal(normals, HIDDEN_GAIN, width, width)),
        ),
        output=linear(orthogonal(normals, gain, width, outputs)),
    )


def _head(params: Head, x: Float32[Array, "*lead inputs"], dtype: DTypeLike) -> Float32[Array, "*lead outputs"]:
    for layer in params.hidden:
        x = jax.nn.relu(dense(layer, x, dtype))
    return dense(params.output, x, dtype)


# Experience


class Transitions(Struct):
    """One step of each environment, or a rollout of them (`[time, envs, …]`); bytes where possible."""

    view: UInt8[Array, "*lead rows cols"]
    nodes: Int8[Array, "*lead depth"]
    """The task state, as nodes of its graph; -1 unused."""
    entry: UInt8[Array, "*lead"]
    """Which problem of the pool was played."""
    start: Bool[Array, "*lead"]
    """The first step of an episode."""
    action: UInt8[Array, "*lead"]
    log_prob: Float32[Array, "*lead"]
    value: Float32[Array, "*lead"]
    """Predicted while acting."""
    reward: Float32[Array, "*lead"]
    done: Bool[Array, "*lead"]
    accepted: Bool[Array, "*lead"]
    truncated: Bool[Array, "*lead"]
    cut_value: Float32[Array, "*lead"] | None
    """Value of the last state of a truncated episode, 0 elsewhere. Only where truncation bootstraps."""


class Experience(Struct):
    """What learning needs of a rollout."""

    steps: Transitions
    graphs: Graph
    """The tasks, batched `[envs, pool]`. Never stored per step."""
    noise: Key[Array, "envs"]
    """Keys of the random node features: the same while learning as while acting."""
    previous: UInt8[Array, "envs"]
    """The action before the first step (used where an episode was carried over)."""
    hidden: Float32[Array, "phases envs memory"]
    """The hidden state before the first step of each phase."""
    last_value: Float32[Array, "envs"]
    """Value of the state after the last step."""


ENVS_AXIS = Experience.unchecked(steps=1, graphs=0, noise=0, previous=0, hidden=1, last_value=0)
"""The axis of environments in each part."""


class Lesson(Struct):
    """Plans to learn from, as the student would see them: rows of several, one behind the other."""

    seen: Observation
    """`[time, envs]`."""
    action: UInt8[Array, "time envs"]
    graphs: Graph
    """The tasks, batched `[envs, pool]`."""
    noise: Key[Array, "envs"]
    """Keys of the random node features."""


LESSON_AXIS = Lesson.unchecked(seen=1, action=1, graphs=0, noise=0)
"""The axis of environments in each part."""


def observations(experience: Experience) -> Observation:
    """The observations of all steps, as the student had them while acting."""
    steps = experience.steps
    return Observation(
        view=steps.view,
        nodes=table_rows(steps.nodes, steps.entry, experience.graphs.outcome.shape[-1]),
        previous=jnp.concatenate([experience.previous[None], steps.action[:-1]]),
        start=steps.start,
    )


def table_rows(
    nodes: Integer[Array, "*lead depth"], entry: Integer[Array, "*lead"], size: int
) -> Int32[Array, "*lead depth"]:
    """Rows of nodes in the table of a whole pool, whose tasks have `size` nodes each."""
    first = entry.astype(jnp.int32)[..., None] * size
    return jnp.where(nodes >= 0, first + nodes.astype(jnp.int32), -1)


def sample_action(
    chance: Float32[Array, "envs"], logits: Float32[Array, "envs actions"]
) -> tuple[Int32[Array, "envs"], Float32[Array, "envs"]]:
    """Sample an action by inverting the distribution at a uniform number; also its log-probability."""
    log_probs = jax.nn.log_softmax(logits)
    below = jnp.cumsum(jnp.exp(log_probs), -1)[:, :-1]
    action = jnp.sum(chance[:, None] >= below, -1, dtype=jnp.int32)
    return action, log_prob_of(log_probs, action)


def log_prob_of(log_probs: Float32[Array, "*lead actions"], action: Integer[Array, "*lead"]) -> Float32[Array, "*lead"]:
    """The log-probability of an action, as a product with its one-hot: the gradient of indexing would be a scatter."""
    return jnp.sum(log_probs * jax.nn.one_hot(action, log_probs.shape[-1]), -1)
