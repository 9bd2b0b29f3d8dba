"""Waits grow, are spread, and start again."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from app.agent.backoff import Backoff


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_waits_stay_within_their_ceiling(seed: int, failures: int) -> None:
    backoff = Backoff(random.Random(seed), first_s=1.0, most_s=100.0, least_s=0.1)
    for number in range(failures):
        assert 0.1 <= backoff.next_s() <= min(100.0, 2.0**number) + 0.1


def test_waits_are_spread_evenly() -> None:
    waits = []
    for seed in range(2000):
        backoff = Backoff(random.Random(seed), failures=10)
        waits.append(backoff.next_s())
    quarters = [sum(256 * k <= wait < 256 * (k + 1) for wait in waits) for k in range(4)]
    assert min(quarters) > 400


def test_the_other_sides_wish_is_the_least() -> None:
    backoff = Backoff(random.Random(1))
    assert backoff.next_s(asked_s=30.0) == 30.0
    assert Backoff(random.Random(1), most_s=5.0).next_s(asked_s=1e9) == 5.0


def test_success_starts_again() -> None:
    backoff = Backoff(random.Random(1), failures=20)
    backoff.succeeded()
    assert backoff.next_s() <= 1.0
