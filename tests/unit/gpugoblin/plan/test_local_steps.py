from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.errors import PlanError
from gpugoblin.plan.local_steps import (
    FEWEST,
    UTILISATION,
    Pace,
    choose_steps,
    utilisation,
    wanted_steps,
)

SLOW = Pace(step_s=0.1, latency_s=0.2, bytes_per_s=1e6, round_bytes=3_000_000, step_bytes=100)
"""A round's way takes 3.2 s: 85 % of the time computing needs 18.1 s of it, 182 steps."""


def anything(steps: int) -> bool:
    return True


def test_the_formula_by_hand() -> None:
    bare = dataclasses.replace(SLOW, step_bytes=0)
    assert wanted_steps(bare) == pytest.approx(0.85 * 3.2 / (0.15 * 0.1))
    assert utilisation(bare, 32) == pytest.approx(0.5)
    assert choose_steps(SLOW, 1000, 500, anything) == 200


@given(
    step_s=st.floats(1e-4, 10), latency_s=st.floats(0, 5), rate=st.floats(1e4, 1e9),
    round_bytes=st.integers(0, 10**9), step_bytes=st.integers(0, 10**6),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_it_is_the_least_that_reaches_the_share(
    step_s: float, latency_s: float, rate: float, round_bytes: int, step_bytes: int
) -> None:
    pace = Pace(step_s, latency_s, rate, round_bytes, step_bytes)
    found = choose_steps(pace, 720720, 1000, anything)
    assert 720720 % found == 0
    smaller = [n for n in range(FEWEST, found) if 720720 % n == 0]
    assert all(utilisation(pace, n) < UTILISATION + 1e-9 for n in smaller)
    if found < 990:  # The largest divisor of them is taken where none is enough.
        assert utilisation(pace, found) > UTILISATION - 1e-9


def test_a_link_that_no_number_of_steps_hides_has_the_most_there_are() -> None:
    hopeless = dataclasses.replace(SLOW, step_bytes=10**6)
    assert wanted_steps(hopeless) == float("inf")
    assert choose_steps(hopeless, 100, 30, anything) == 25


def test_what_does_not_fit_is_made_smaller_or_refused() -> None:
    assert choose_steps(SLOW, 1000, 500, lambda steps: steps <= 60) == 50
    for steps, most in ((7, 6), (10, 1), (9, 0)):
        with pytest.raises(PlanError) as caught:
            choose_steps(SLOW, steps, most, anything)
        assert caught.value.code == "local_steps_not_found"
    with pytest.raises(PlanError):
        choose_steps(SLOW, 1000, 500, lambda steps: False)
