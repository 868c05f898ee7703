"""Exported policies: the player in `examples/` knows NumPy alone, and takes the same actions as ours."""

import json
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import atlas
from atlas.build import parts
from atlas.cli import main
from atlas.environment import as_dict
from atlas.errors import AtlasError
from atlas.runs import store
from atlas.runs.export import POLICY, export
from atlas.runs.folder import zoo_names
from atlas.runs.policy import Policy, load_policy
from atlas.student.network import Observation, sample_action
from atlas.tasks.packed import RewardMachines
from students import HIERARCHY, TINY, views

PLAYER = Path(__file__).parent.parent / "examples" / "numpy_player.py"
Player = runpy.run_path(str(PLAYER))["Player"]
LETTERS = "letters"
"""A policy of LetterWorld that is untrained."""
STEPS = 12


def untrained(config) -> Policy:
    """A policy with random weights, biases included, which are zeros at first."""
    student = parts(config).student
    params = student.init(jax.random.key(1))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    noisy = [x + 0.1 * jax.random.normal(key, x.shape) for x, key in zip(leaves, keys, strict=True)]
    return Policy(config, student, jax.tree.unflatten(tree, noisy), 3, 5, 7.0, Path("a run"))


@cache
def policy_of(name: str) -> Policy:
    return untrained(atlas.configure("quick-letters")) if name == LETTERS else load_policy(f"zoo:{name}")


@cache
def game(domain: str, with_map: bool):
    """A compiled world, and problems of one size: three flat, three hierarchical."""
    env = atlas.make(domain, tasks={"sampler": "hierarchical"}, step_limit=64, map=with_map)
    some = [atlas.sample(3, "level", tasks, seed=3, domain=domain) for tasks in ("sequential", "hierarchical")]
    return jax.jit(env.reset), jax.jit(env.step), env.stack([*some[0], *some[1]])


def play(policy: Policy, path: Path, problem: int, drawn: bool) -> list[int]:
    """An episode of both side by side; our actions are taken."""
    reset, move, problems = game(policy.config.domain.name, policy.student.config.map)
    one = jax.tree.map(lambda leaf: leaf[problem], problems)
    player, memory, ours, actions = Player(path), None, None, []
    key, random = jax.random.key(0), np.random.default_rng(problem)
    seen, state = reset(key, one)
    for _ in range(40):
        chances, memory = player.step(jax.tree.map(np.asarray, as_dict(seen)), memory)
        logits, ours = stepped(policy)(seen, ours)
        np.testing.assert_allclose(chances, jax.nn.softmax(logits[0]), atol=1e-5)
        chance = np.float32(random.random())
        action = int(sample_action(jnp.array([chance]), logits)[0][0]) if drawn else int(jnp.argmax(logits))
        theirs = int((chance >= np.cumsum(chances)[:-1]).sum()) if drawn else int(np.argmax(chances))
        assert theirs == action
        actions.append(action)
        seen, state, _, done, _ = move(key, state, np.int32(action), one)
        if done:
            break
    return actions


@cache
def stepped(policy: Policy):
    """Our logits and memory, with the random features of `Policy.act` without a key."""

    def step(seen, memory):
        student, params = policy.student, policy.params
        if memory is None:
            key_noise, _ = jax.random.split(jax.random.key(0))
            graph = jax.tree.map(lambda leaf: leaf[None, None], seen.task)
            memory = student.embed(params, key_noise[None], graph), student.initial_hidden(1)
        look = Observation(
            view=seen.view[None],
            nodes=seen.task_state[None],
            previous=seen.previous[None].astype(jnp.uint8),
            start=(seen.previous == student.num_actions)[None],
        )
        hidden, logits, _ = student.step(params, memory[0], look, memory[1])
        return logits, (memory[0], hidden)

    return jax.jit(step)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "quick")) for name in (*zoo_names(), LETTERS)]
)
def test_the_same_actions(name: str, tmp_path: Path) -> None:
    """The likeliest, and drawn by the same uniform numbers; flat tasks and hierarchies."""
    policy = policy_of(name)
    export(policy, tmp_path / "policy.npz")
    for drawn in (False, True):
        episodes = [play(policy, tmp_path / "policy.npz", problem, drawn) for problem in range(6)]
        assert len(set(map(tuple, episodes))) > 2  # they do look at what they see


def test_the_same_actions_as_the_public_function(tmp_path: Path) -> None:
    policy = policy_of("quick")
    reset, move, problems = game("minigrid", policy.student.config.map)
    export(policy, tmp_path / "policy.npz")
    player, memory, ours, key = Player(tmp_path / "policy.npz"), None, None, jax.random.key(0)
    one = jax.tree.map(lambda leaf: leaf[1], problems)
    seen, state = reset(key, one)
    for _ in range(10):
        chances, memory = player.step(jax.tree.map(np.asarray, as_dict(seen)), memory)
        action, ours = policy.act(seen, ours)
        assert int(action) == np.argmax(chances)
        seen, state, *_ = move(key, state, action, one)


NETWORKS = {
    "conv": {"view": "conv"},
    "queries": {"queries": 3, "literals": "bound"},
    "independent": {"literals": "independent", "task_into_gru": False},
    "edge": {"messages": "edge", "graph_layers": 2, "node_noise": 0.5},
    "index": {"task": "index"},
    "bf16": {"bf16": True, "graph_layers": 2},
    "map": {"map": True, "task": "index"},
}
QUICKLY = ("index", "bf16", "map")
"""Compiled soon enough for the fast tests."""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, marks=[pytest.mark.slow] * (name not in QUICKLY), id=name)
        for name, changes in NETWORKS.items()
    ],
)
def test_every_kind_of_network(changes: dict, tmp_path: Path) -> None:
    """The same views and tasks for both, flat and hierarchical; ours as it learns, over the whole sequence at once."""
    network = {**TINY, "filters": [4, 5, 6], **changes}
    policy = untrained(atlas.configure("tiny", student={"network": network}))
    export(policy, tmp_path / "policy.npz")
    player, student = Player(tmp_path / "policy.npz"), policy.student
    random = np.random.default_rng(0)
    graph = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None, None], RewardMachines.graph(None, HIERARCHY))
    count = graph.outcome.shape[-1]
    view = views(student.cells, STEPS, seed=1)
    nodes = np.stack([random.permutation(count)[:2] for _ in range(STEPS)])
    nodes[::3, 1] = -1
    previous = random.integers(student.num_actions, size=STEPS).astype(np.uint8)
    previous[0] = student.num_actions
    look = Observation(
        view=jnp.asarray(view)[:, None],
        nodes=jnp.asarray(nodes)[:, None],
        previous=jnp.asarray(previous)[:, None],
        start=jnp.arange(STEPS)[:, None] == 0,
    )
    key_noise, _ = jax.random.split(jax.random.key(0))
    embed = jax.jit(student.embed)(policy.params, key_noise[None], graph)
    logits, _ = jax.jit(student.unroll)(policy.params, embed, look, student.initial_hidden(1))
    memory, found = None, []
    arrays = {name: np.asarray(getattr(graph, name))[0, 0] for name in ("target", "guard", "outcome")}
    for t in range(STEPS):
        told = {"view": view[t], "task": arrays, "task_state": nodes[t], "previous_action": previous[t]}
        chances, memory = player.step(told, memory)
        found.append(chances)
    close = 0.005 if network.get("bf16") else 1e-4  # half precision: one unit may be rounded to either side
    np.testing.assert_allclose(np.stack(found), jax.nn.softmax(logits[:, 0]), atol=close)
    assert np.ptp(np.stack(found), 0).max() > 2 * close  # it does depend on what is seen


def test_a_policy_with_a_map_needs_views_with_one(tmp_path: Path) -> None:
    policy = untrained(atlas.configure("tiny", student={"network": {**TINY, "task": "index", "map": True}}))
    env, key = atlas.make(preset="tiny"), jax.random.key(0)
    problem = env.sample(key)
    without, _ = env.reset(key, problem)
    with pytest.raises(AtlasError, match=r"sees 78 x 1 cells: a view of 5 x 5 .*`atlas.make\(map=True\)`"):
        policy.act(without)
    seen, _ = atlas.make(preset="tiny", map=True).reset(key, problem)
    action, memory = policy.act(seen)
    assert memory.hidden.shape == (1, TINY["recurrent"])
    export(policy, tmp_path / "policy.npz")
    header, _ = store.read(tmp_path / "policy.npz", POLICY)
    assert (tuple(header["view_shape"]), tuple(header["view_fields"])) == (seen.view.shape, (2, 9, 8))
    chances, _ = Player(tmp_path / "policy.npz").step(jax.tree.map(np.asarray, as_dict(seen)))
    assert np.argmax(chances) == int(action)


def test_the_command_and_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "policy.npz"
    assert main(["export", "zoo:quick", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    policy = policy_of("quick")
    assert told["parameters"] == sum(leaf.size for leaf in jax.tree.leaves(policy.params))
    assert (told["policy"], told["bytes"]) == ("zoo:quick", out.stat().st_size)
    header, arrays = store.read(out, POLICY)
    assert all(array.dtype == np.float32 for array in arrays.values())
    assert header["actions"] == list(atlas.make("minigrid").actions)
    assert len(header["propositions"]) == len(arrays["features"]) == 889
    assert header["settings"]["student"]["network"]["recurrent"] == len(arrays["gru.recurrent"])
    assert str(tmp_path) not in json.dumps(header)
    assert main(["export", "zoo:quick", "--out", str(tmp_path / "policy.txt")]) == 2
    assert "a name that ends in .npz is needed" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--out", str(out)]) == 2
    assert not list(tmp_path.glob(".*"))


def test_the_player_needs_no_more_than_numpy(tmp_path: Path) -> None:
    """In an interpreter that has neither JAX nor ATLAS."""
    export(policy_of("quick"), tmp_path / "policy.npz")
    blocked = "import sys; sys.modules.update(dict.fromkeys(('jax', 'jaxlib', 'atlas', 'gymnasium')))"
    code = f"""{blocked}
import runpy, numpy as np
player = runpy.run_path({str(PLAYER)!r})["Player"]({str(tmp_path / "policy.npz")!r})
task = dict(target=[[1], [-1]], guard=[[[5]], [[0]]], outcome=[0, 1])
view = np.zeros(player.about["view_shape"], np.uint8)
chances, memory = player.step(dict(view=view, task=task, task_state=[0], previous_action=len(player.about["actions"])))
print(chances.shape, abs(chances.sum() - 1) < 1e-5)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["(6,)", "True"]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    store.write(tmp_path / "other.npz", store.PARAMETERS, {"a": np.zeros(2)}, {})
    with pytest.raises(SystemExit, match="not a policy that this player knows"):
        Player(tmp_path / "other.npz")
