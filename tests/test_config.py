"""Settings: text round trip, and sentences for every kind of mistake."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from atlas.commands.train import default_folder, parse
from atlas.config import Config, PPOConfig, RunConfig
from atlas.domains.minigrid.presets import PRESETS
from atlas.errors import AtlasError
from atlas.settings import ConfigError, Settings, dump, from_plain, load
from atlas.ued import ACCELConfig, BufferConfig, DRConfig


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_its_text_form(name: str) -> None:
    config = PRESETS[name].config
    assert from_plain(Config, yaml.safe_load(dump(config))) == config


@given(st.floats(0, 1), st.integers(1, 10**9), st.sampled_from(["rank", "proportional", "topk"]), st.booleans())
def test_random_settings_survive_their_text_form(share: float, number: int, how: Any, flag: bool) -> None:
    buffer = BufferConfig(staleness=share, capacity=number, prioritisation=how, replacement=flag)
    config = Config(teacher=ACCELConfig(replay_prob=share, buffer=buffer, num_eval=number))
    assert from_plain(Config, yaml.safe_load(dump(config))) == config


MISTAKES = [
    ({"run": {"sede": 3}}, ["run.sede", "did you mean seed"]),
    ({"runn": {}}, ["runn is not a setting", "run"]),
    ({"run": {"seed": "three"}}, ["run.seed = three", "a whole number"]),
    ({"run": {"seed": True}}, ["run.seed = true", "a whole number"]),
    ({"run": {"seed": -1}}, ["run.seed = -1", "at least 0"]),
    ({"run": 3}, ["run = 3", "a section"]),
    ({"teacher": {"name": "plr", "replay_prob": 1.5}}, ["teacher.replay_prob = 1.5", "at most 1"]),
    ({"teacher": {"name": "paired"}}, ["teacher.name = paired", "dr, plr, accel"]),
    ({"teacher": {"name": "dr", "replay_prob": 0.5}}, ["teacher.replay_prob is not a setting"]),
    ({"teacher": {"name": "accel", "buffer": {"top": 0}}}, ["teacher.buffer.top = 0", "at least 1"]),
    ({"teacher": {"name": "accel", "edits": {"least": 9, "most": 3}}}, ["teacher.edits.least = 9", "most = 3"]),
    ({"domain": {"rooms": [1, 3]}}, ["domain.rooms = [1, 3]", "1, 2, 4, 6, 9"]),
    ({"domain": {"rooms": []}}, ["domain.rooms = []", "at least one"]),
    ({"domain": {"objects": {"one_room": [5, 1]}}}, ["domain.objects.one_room = [5, 1]", "least <= most"]),
    ({"domain": {"colours": ["pink"]}}, ["domain.colours = [pink]", "red, green"]),
    ({"student": {"ppo": {"learning_rate": 0}}}, ["student.ppo.learning_rate = 0", "more than 0"]),
    ({"student": {"ppo": {"minibatch_envs": 33}}}, ["student.ppo.minibatch_envs = 33", "run.num_envs = 4096"]),
    (
        {"student": {"network": {"view": "conv", "map": True}}},
        ["student.network.map = true", "false is needed unless student.network.view = dense"],
    ),
    ({"student": {"ppo": {"phases": 3}}}, ["student.ppo.phases = 3", "run.rollout = 512"]),
    ({"teacher": {"name": "plr"}, "run": {"rollout": 64}}, ["run.rollout = 64", "domain.step_limit = 512"]),
    ({"tasks": {"min_length": 6}}, ["tasks.min_length = 6", "tasks.max_length = 5"]),
]


@pytest.mark.parametrize(("plain", "words"), MISTAKES, ids=[str(m[0]) for m in MISTAKES])
def test_a_mistake_is_told_in_one_sentence(plain: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_plain(Config, plain)
    sentence = str(caught.value)
    assert "\n" not in sentence
    for word in words:
        assert word in sentence


def test_a_config_file_is_named_in_the_error(tmp_path: Any) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("run: {seed: -1}")
    with pytest.raises(ConfigError, match=r"config\.yaml: run\.seed = -1"):
        load(Config, path)
    path.write_text("run: {seed: [")
    with pytest.raises(AtlasError, match=r"config\.yaml, line 2, column 1: not readable YAML"):
        load(Config, path)


def test_dr_may_cut_episodes_but_scoring_teachers_may_not() -> None:
    short = RunConfig(rollout=64)
    assert Config(teacher=DRConfig(), run=short).run.rollout == 64
    with pytest.raises(ConfigError, match="scores need finished episodes"):
        Config(teacher=ACCELConfig(), run=short)


def settings_classes(cls: type[Settings] = Settings) -> list[type[Settings]]:
    return [sub for child in cls.__subclasses__() for sub in [child, *settings_classes(child)]]


@pytest.mark.parametrize("cls", settings_classes(), ids=lambda cls: cls.__name__)
def test_every_setting_is_documented(cls: type[Settings]) -> None:
    import inspect

    lines = inspect.getsource(cls).splitlines()
    own = [field.name for field in dataclasses.fields(cls) if field.name in cls.__annotations__]
    for name in own:
        line = next(i for i, text in enumerate(lines) if text.startswith(f"    {name}:"))
        end = next(i for i in range(line, len(lines)) if not lines[i].startswith(("        ", "    )")) and i > line)
        assert lines[end].strip().startswith('"""'), f"{cls.__name__}.{name} has no docstring"


def test_paper_presets_have_the_papers_numbers() -> None:
    config = PRESETS["paper-accel"].config
    assert (config.run.num_envs, config.run.rollout, config.run.total_steps) == (4096, 512, 4_194_304_000)
    assert config.student.ppo == PPOConfig()
    assert isinstance(config.teacher, ACCELConfig)
    assert (config.teacher.edits.least, config.teacher.edits.most, config.teacher.replay_prob) == (7, 10, 0.9)
    assert PRESETS["paper-accel0"].config.pairing.minimal
    assert PRESETS["paper-accel0"].config.teacher.replay_prob == 0.99  # type: ignore[union-attr]
    assert PRESETS["paper-plr"].config.teacher.replay_prob == 0.5  # type: ignore[union-attr]
    assert PRESETS["paper-dag-dr"].config.run.total_steps == 6_291_456_000


def test_a_file_without_a_preset_is_remarked_upon_once(tmp_path: Path) -> None:
    path = tmp_path / "part.yaml"
    path.write_text("run: {seed: 3}\n")
    with pytest.warns(UserWarning, match="names no preset: what it leaves out is as in the paper"):
        args = parse([str(path)])
    with warnings.catch_warnings(action="error"):
        assert default_folder(args).name == "part"


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({"sampler": "hierarchical"}, "flat tasks, not tasks.sampler = hierarchical"),
        ({"reward": "outlok"}, "outlook"),
    ],
)
def test_rewards_by_the_outlook_need_flat_tasks(plain: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=r"tasks\.reward = outlo") as caught:
        from_plain(Config, {"tasks": {"reward": "outlook", **plain}})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
