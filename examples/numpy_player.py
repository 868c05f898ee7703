"""A trained policy played with NumPy alone: no JAX and no ATLAS in this class, and the same actions as theirs.

    atlas export zoo:quick --out policy.npz
    python examples/numpy_player.py policy.npz

The second line plays episodes, for which the world is ATLAS's own (`pip install 'atlas-ued[gym]'`).
"""

import json
import sys

import numpy as np


def relu(x):
    return np.maximum(x, 0.0)


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def bfloat16(x):
    """Rounded to the nearest number of 8 significant bits, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


class Player:
    """The network of an exported policy. An observation is a dict, as Gymnasium's: `view` (bytes), `task` (`target`,
    `guard` and `outcome` of its graph), `task_state` (nodes of it) and `previous_action`."""

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.weights = {name: file[name] for name in file.files if name != "header"}
            self.about = json.loads(str(file["header"]))
        if (self.about.get("format"), self.about.get("version")) != ("atlas policy", 1):
            raise SystemExit(f"{path}: not a policy that this player knows; `atlas export` writes one")
        self.network = self.about["settings"]["student"]["network"]
        self.kernel = self.folded()

    def step(self, seen, memory=None):
        """Action probabilities, and the memory to pass with the next observation; an episode begins without one."""
        table, hidden = memory or (self.embed(seen["task"]), np.zeros(self.network["recurrent"], np.float32))
        task = sum(table[node] for node in seen["task_state"] if node >= 0)
        parts = [self.look(seen["view"], task), self.weights["actions"][int(seen["previous_action"])]]
        parts += [task] if self.network["task_into_gru"] else []
        inputs = np.split(self.dense(np.concatenate(parts), "gru.inputs"), 3)
        before = np.split(self.product(hidden, self.weights["gru.recurrent"]), 3)
        reset, update = sigmoid(inputs[0] + before[0]), sigmoid(inputs[1] + before[1])
        new = np.tanh(inputs[2] + reset * (before[2] + self.weights["gru.bias"]))
        hidden = (1.0 - update) * new + update * hidden
        x = hidden if self.network["task_into_gru"] else np.concatenate([hidden, task])
        for layer in ("actor.hidden.0", "actor.hidden.1"):
            x = relu(self.dense(x, layer))
        logits = self.dense(x, "actor.output")
        chances = np.exp(logits - logits.max())
        return chances / chances.sum(), (table, hidden)

    def product(self, x, kernel):
        return bfloat16(x) @ bfloat16(kernel) if self.network["bf16"] else x @ kernel

    def dense(self, x, name):
        return self.product(x, self.weights[f"{name}.kernel"]) + self.weights[f"{name}.bias"]

    def folded(self):
        """The first layer of the view with the embeddings of a cell's fields multiplied in: a row a bit of a cell."""
        tables = [self.weights[f"view.embeddings.{i}"] for i in range(len(self.about["view_fields"]))]
        kernel = self.weights["view.layers.0.kernel"]
        cells = kernel.reshape(-1, len(tables), tables[0].shape[1], kernel.shape[1])
        parts = [np.einsum("ke,ceo->cko", codes, cells[:, i]) for i, codes in enumerate(tables)]
        return np.concatenate(parts, 1).reshape(-1, kernel.shape[1])

    def look(self, view, task):
        """Features of a view: three convolutions, or one dense layer that the task may ask about cells."""
        parts, shift = [], 0
        for values in reversed(self.about["view_fields"]):
            width = (values - 1).bit_length()
            parts.insert(0, ((view >> shift) & ((1 << width) - 1))[..., None] == np.arange(values))
            shift += width
        x = np.concatenate(parts, -1).astype(np.float32)
        if self.network["view"] == "dense":
            features = self.product(x.ravel(), self.kernel) + self.weights["view.layers.0.bias"]
            if self.network["queries"]:
                cells = x.reshape(-1, x.shape[-1])
                asked = self.dense(task, "view.queries.ask").reshape(-1, cells.shape[1] + 1)
                answers = relu(asked[:, :-1] @ cells.T + asked[:, -1:])
                features = features + self.product(answers.ravel(), self.weights["view.queries.answers"])
            return relu(features)
        rows, cols = view.shape
        for i in range(3):  # 2x2 patches, zeros beyond the edge
            padded = np.pad(x, ((0, 1), (0, 1), (0, 0)))
            patch = [padded[down : down + rows, right : right + cols] for down in (0, 1) for right in (0, 1)]
            kernel = self.weights[f"view.layers.{i}.kernel"] if i else self.kernel
            x = relu(self.product(np.concatenate(patch, -1), kernel) + self.weights[f"view.layers.{i}.bias"])
        return x.ravel()

    def embed(self, task):
        """The embedding of every state of a task: a graph network in which nodes gather from where their edges lead."""
        target, guard, outcome = (np.asarray(task[name], np.int64) for name in ("target", "guard", "outcome"))
        if self.network["task"] == "index":
            rows = self.weights["task.rows.kernel"]
            return self.dense(np.eye(len(rows), dtype=np.float32)[: len(target)], "task.rows")
        x = self.weights["noise"][: len(target)] + (outcome == 2)[:, None] * self.weights["task.rejecting"]
        weight = (target >= 0) / np.maximum((target >= 0).sum(1, keepdims=True), 1)
        weight, edges = weight[..., None].astype(np.float32), self.edges(guard)
        leads_to = (target[..., None] == np.arange(len(target))).astype(np.float32)
        if mean := self.network["messages"] == "mean":
            leads_to, edges = (leads_to * weight).sum(1), (edges * weight).sum(1)
        edges = self.product(edges, self.weights["task.edge"])
        for i in range(self.network["graph_layers"]):
            name = f"task.layers.{i}"
            ahead = self.product(self.product(leads_to, x), self.weights[f"{name}.neighbours"])
            gathered = ahead + self.product(edges, self.weights[f"{name}.edges"])
            x = self.dense(x, f"{name}.self") + (gathered if mean else (relu(gathered) * weight).sum(1))
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
            x = relu(x * self.weights[f"{name}.norm.scale"] + self.weights[f"{name}.norm.shift"])
        return self.dense(x, "task.output")

    def edges(self, guard):
        """The literals of each edge, embedded and added up."""
        if self.network["literals"] == "independent":
            rows = self.weights["task.literals.rows"]
            every = np.where((guard != 0)[..., None], rows[len(rows) // 2 + guard], 0.0).sum(2)
            return np.where((guard == 0).all(-1)[..., None], rows[len(rows) // 2], every)
        objects, location = self.weights["task.literals.objects"], self.weights["task.literals.location"]
        features = self.weights["features"][np.maximum(np.abs(guard) - 1, 0)]
        sign = np.sign(guard)[..., None].astype(np.float32)
        if self.network["literals"] == "bound":
            embedded = (sign * relu(self.product(features[..., 1:, :], objects)).sum(-2)).sum(2)
        else:
            embedded = self.product((sign * features[..., 1:, :].sum(-2)).sum(2), objects)
        places = features[..., 0, : len(location) - objects.shape[1]]
        return self.product(np.concatenate([embedded, (sign * places).sum(2)], -1), location)


def main(path, episodes=5, seed=0):
    """Play problems of the policy's domain, and tell which tasks were done."""
    from atlas.gym.envs import AtlasEnv

    player = Player(path)
    env = AtlasEnv(player.about["domain"], step_limit=128, map=player.network.get("map", False))
    random, solved = np.random.default_rng(seed), 0
    for episode in range(episodes):
        seen, info = env.reset(seed=seed + episode)
        memory, over, steps = None, False, 0
        while not over:
            chances, memory = player.step(seen, memory)
            seen, _, done, cut, info = env.step(random.choice(len(chances), p=chances))
            over, steps = done or cut, steps + 1
        solved += info["accepted"]
        print(f"{'done' if info['accepted'] else 'not done'} after {steps} steps: {seen['mission']}")
    print(f"{solved} of {episodes} tasks done")


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["policy.npz"])
