"""Timing, limits, parts, growth: the harness on work whose cost is known."""

import jax
import jax.numpy as jnp
import pytest

from atlas.bench import growth, parts, timing
from atlas.bench.growth import Curve
from atlas.bench.machine import describe, sentence
from atlas.bench.picture import picture
from atlas.bench.rows import Clock, Effort, per_second, seconds
from atlas.bench.shapes import PAPER, SMALL, TEACHERS, TOY, flops
from atlas.bench.timing import Compiled, Limit, compiled, measure, nbytes
from atlas.cli import main
from atlas.errors import AtlasError

EFFORT = Effort(least=4, seconds=0.0)


def test_the_warm_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(timing, "clocked", lambda call: Clock(float(call() or 1), 1.0))
    row = measure("work", seconds(), lambda: calls.append(1), EFFORT)
    assert (len(calls), row.repeats) == (5, 4)
    measure("work", seconds(), lambda: calls.append(1), EFFORT, warm=True)
    assert len(calls) == 9


def test_the_limit_is_timed_beside_each_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slows down in the middle slows both: the share stays."""
    pace = iter([1.0, 1.0, 1.0, 1.0, 7.0, 7.0, 7.0, 7.0])
    slow = {"work": 8.0, "limit": 2.0}
    monkeypatch.setattr(timing, "clocked", lambda call: Clock(slow[call()] * next(pace), 1.0))
    row = measure("work", seconds(), lambda: "work", EFFORT, Limit("copy", lambda: "limit", 3.0))
    assert row.share == pytest.approx(3 * 2 / 8)
    assert row.limit == "copy"


def test_compiling_is_told_and_results_are_right() -> None:
    work = compiled(lambda x: x * 2, jnp.arange(3))
    assert work.call().tolist() == [0, 2, 4]
    row = measure("double", per_second(3, "numbers"), work, EFFORT)
    assert row.compile_seconds == work.seconds > 0
    assert measure("nothing", seconds(), Compiled(lambda: None, 0.0), EFFORT).compile_seconds == 0.0
    assert measure("nothing", seconds(), lambda: None, EFFORT).compile_seconds is None


def test_limits_scale_with_the_work() -> None:
    assert timing.copies(2 * timing.COPIED).scale == 2.0
    assert timing.products(2 * timing.SIDE**3).scale == 1.0
    assert nbytes({"a": jnp.zeros((3, 5), jnp.int16), "b": jax.ShapeDtypeStruct((2,), jnp.float32)}) == 38


def test_parts_are_known_and_each_has_its_file() -> None:
    assert parts.chosen([]) == list(parts.PARTS)
    assert parts.chosen(["world", "growth", "world"]) == ["world", "growth"]
    for name in parts.PARTS:
        assert callable(parts.rows(name, EFFORT).__next__), "a generator: nothing is measured yet"


def test_an_unknown_part_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AtlasError, match="there is no part 'x'; there are world, sampling"):
        parts.chosen(["x"])
    assert main(["bench", "wrold"]) == 2
    assert capsys.readouterr().err == "atlas: there is no part 'wrold'; did you mean world?\n"
    assert main(["bench", "growth", "--figure", "growth.doc"]) == 2
    assert "must end in one of .svg, .png, .pdf" in capsys.readouterr().err


def test_the_machine_is_described() -> None:
    machine = describe()
    assert machine["cores"] >= 1
    assert machine["jax"] == jax.__version__
    assert "cores" in sentence(machine)
    assert "others are using it" in sentence({**machine, "load_before": 2.0})
    assert "others are using it" not in sentence({**machine, "load_before": 0.1})


def test_a_power_law_is_found() -> None:
    curve = Curve("batch", "a step", tuple((n, 0.5 * n**1.5) for n in (64.0, 256.0, 4096.0)))
    assert curve.exponent == pytest.approx(1.5)
    assert "n^1.50" in curve.words
    assert "at 64 times the size" in curve.words


def test_what_does_not_grow_is_said_to_stay() -> None:
    curve = Curve("states", "a step", ((6, 1.0), (8, 0.9), (16, 1.1)))
    assert curve.words == "a step hardly depends on it"


def test_an_exponential_law_is_found() -> None:
    curve = Curve("doors", "a check", tuple((n, 3.0 * 2.0**n) for n in (1.0, 4.0, 12.0)), "exponential")
    assert 2**curve.exponent == pytest.approx(2.0)
    assert "2.00 times as long with each one more" in curve.words


def test_one_sentence_for_each_axis_and_a_picture() -> None:
    points = ((1.0, 1.0), (10.0, 10.0))
    curves = [Curve("batch", "a step", points), Curve("batch", "acting", points), Curve("doors", "a check", points)]
    said = growth.sentences(curves)
    assert len(said) == 2
    assert said[0].startswith("Batch, 1 to 10: a step takes time ~ n^1.00")
    assert picture(curves, "png").startswith(b"\x89PNG")
    assert curves[0].plain()["points"][1] == {"size": 10.0, "milliseconds": 10.0}


def test_nominal_operations_of_the_paper_network() -> None:
    """Three convolutions on 25 cells, a GRU of 512 over 1,744 inputs, two heads."""
    view = 25 * 4 * (32 * 32 + 32 * 64 + 64 * 64)
    memory = 3 * 512 * (25 * 64 + 16 + 128 + 512)
    heads = 2 * (512 * 256 + 256 * 256) + 256 * (6 + 1)
    assert flops(PAPER.network) == 2 * (view + memory + heads)
    assert PAPER.learning() == 12 * PAPER.acting()


@pytest.mark.parametrize("shape", [PAPER, SMALL, TOY], ids=lambda s: s.name)
@pytest.mark.parametrize("teacher", TEACHERS)
def test_every_timed_experiment_is_a_valid_config(shape, teacher) -> None:
    config = shape.config(TEACHERS[teacher][1])
    assert config.run.num_envs * config.run.rollout == shape.work
