"""What commands print and refuse stays as it was: every case of `goldens.py` against what is stored."""

from pathlib import Path
from typing import Any

import pytest

import goldens

PARAMETERS = [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in goldens.CASES]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The results of all cases that were asked for, run in one process."""
    items = [item for item in request.session.items if item.path == Path(__file__) and hasattr(item, "callspec")]
    return goldens.run_apart([item.callspec.params["case"].name for item in items])


@pytest.mark.parametrize("case", PARAMETERS)
def test_golden(case: goldens.Case, found: dict[str, Any]) -> None:
    assert goldens.differences(goldens.results(case.group)[case.name], found[case.name]) == []


def test_nothing_is_stored_that_is_not_run() -> None:
    names = {case.name for case in goldens.CASES}
    stored = {name for group in {case.group for case in goldens.CASES} for name in goldens.results(group)}
    assert stored == names
