from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.errors import GraphError
from gpugoblin.optim.schedules import (
    Constant,
    Cosine,
    Exponential,
    OneCycle,
    Stairs,
    Warmup,
    schedule_of,
)


def test_values() -> None:
    assert [Constant(0.5).value(step) for step in (0, 7)] == [0.5, 0.5]
    assert [Exponential(1.0, 0.5).value(step) for step in range(3)] == pytest.approx([1, 0.5, 0.25])
    assert [Stairs(1.0, 3, 0.5).value(step) for step in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    cosine = Cosine(1.0, 4, 0.2)
    expected = [1, 0.6 + 0.4 * math.sqrt(0.5), 0.6, 0.6 - 0.4 * math.sqrt(0.5), 0.2, 0.2]
    assert [cosine.value(step) for step in range(6)] == pytest.approx(expected)
    warm = Warmup(Cosine(1.0, 4), 5)
    assert [warm.value(step) for step in range(6)] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert warm.value(7) == pytest.approx(0.5)
    assert Warmup(Constant(1.0), 2, 0.5).value(1) == pytest.approx(0.75)


@given(st.integers(1, 10**6), st.integers(0, 16_000_000))
def test_no_stair_is_late_or_early(every: int, step: int) -> None:
    found = Stairs(1.0, every, 0.999).value(step)
    assert found == pytest.approx(0.999 ** (step // every), rel=1e-3 / 3, abs=1e-30)


@pytest.mark.parametrize("steps", [10, 100])
def test_against_torch(steps: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    ours = OneCycle(2.0, steps), Cosine(2.0, steps, 0.5)
    peers = torch.optim.lr_scheduler
    for own in ours:
        optimizer = torch.optim.SGD([torch.zeros(1)], 2.0)
        if isinstance(own, OneCycle):
            peer = peers.OneCycleLR(optimizer, 2.0, total_steps=steps)
        else:
            peer = peers.CosineAnnealingLR(optimizer, steps, 0.5)
        for step in range(steps):
            assert own.value(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-5)
            optimizer.step()
            if step + 1 < steps:
                peer.step()


def test_one_cycle_rises_and_falls() -> None:
    cycle = OneCycle(1.0, 100)
    assert cycle.value(0) == pytest.approx(0.04)
    assert cycle.value(29) == pytest.approx(1.0)
    assert cycle.value(99) == cycle.value(500) == pytest.approx(4e-6, abs=1e-7)


def test_numbers_that_do_not_fit_are_refused() -> None:
    for make in (
        lambda: Constant(math.inf),
        lambda: Warmup(Constant(1.0), 0),
        lambda: Cosine(1.0, 0),
        lambda: Stairs(1.0, 3, 0.0),
        lambda: Exponential(1.0, -1.0),
        lambda: OneCycle(1.0, 2),
        lambda: OneCycle(1.0, 20, rise=1.0),
        lambda: schedule_of(math.nan),
    ):
        with pytest.raises(GraphError, match="attribute_invalid"):
            make()
