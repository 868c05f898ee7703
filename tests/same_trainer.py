"""One trainer and one small exam for all runs of a file of tests: they are compiled once."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from atlas.build import build, parts
from atlas.config import Config
from atlas.evaluation.held_out import Exam
from atlas.runs import run as running


@contextmanager
def same_trainer(config: Config, cache: Path) -> Iterator[None]:
    """Runs of this config, whatever they ask for; iterations one by one, so that there is much to see."""
    made = parts(config)
    trainer = build(config, made=made)
    exams: list[Exam] = []

    def examine(made, chosen):
        exams[:] = exams or [Exam(made, chosen)]
        return exams[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(running, "build", lambda *_: trainer)
        patch.setattr(running, "parts", lambda *_: made)
        patch.setattr(running, "obtain", functools.partial(running.obtain, per_size=4))
        patch.setattr(running, "Exam", examine)
        patch.setattr("atlas.fit.CALL_SECONDS", 1e-9)
        yield
