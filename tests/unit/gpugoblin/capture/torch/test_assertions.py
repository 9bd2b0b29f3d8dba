"""A choice is left out only where its other side raises."""

from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.capture.torch.assertions import answered, checks_of
from tests.helpers.torch_programs import torch_or_skip

torch = torch_or_skip()
X = torch.ones(3)


def _raising(x: Any) -> Any:
    if (x > 5).any():
        raise ValueError("too large")
    return x


def _asserting(x: Any) -> Any:
    assert (x < 5).all()
    return x


def _inside_torch(x: Any) -> Any:
    return torch.nn.functional.gaussian_nll_loss(x, x, x)


def _taking(x: Any) -> Any:
    if (x > 5).any():
        return x[(x > 5).nonzero()[0, 0]]
    return x[0]


def _going_on(x: Any) -> Any:
    return x * 2 if bool((x > 5).any()) else x


def _unfolding(x: Any) -> Any:
    return x * 2 if (x > 5).any().item() else x


@pytest.mark.parametrize("program", [_raising, _asserting, _inside_torch])
def test_a_check_is_found(program: Any) -> None:
    assert len(checks_of(lambda: program(X)).taken) == 1


@pytest.mark.parametrize("program", [_taking, _going_on, _unfolding])
def test_a_choice_is_none(program: Any) -> None:
    assert not checks_of(lambda: program(X)).taken


def test_a_trace_is_told_the_choice_of_the_run_and_no_other() -> None:
    checks = checks_of(lambda: _raising(X))
    with answered(checks):
        assert _raising(X * 10).sum() == 30
        assert _going_on(X * 10).sum() == 60
    with pytest.raises(ValueError, match="too large"):
        _raising(X * 10)


def test_a_program_that_fails_by_itself_says_so() -> None:
    with pytest.raises(ValueError, match="too large"):
        checks_of(lambda: _raising(X * 10))
