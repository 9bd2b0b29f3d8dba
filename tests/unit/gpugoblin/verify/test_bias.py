"""Errors of one direction are told from those that cancel, without knowing the direction."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import Array
from gpugoblin.graph.interpret import interpret
from gpugoblin.plan.microbatches import micro_batch
from gpugoblin.verify.bias import (
    DIRECTIONS,
    FEWEST,
    LIMIT,
    Bias,
    added,
    is_biased,
    mean_of,
    projected,
)
from gpugoblin.verify.spread import LARGEST, measure, usable
from tests.helpers.float32 import evaluate_float32
from tests.helpers.trainings import SLOTS, linear_loss

SECRET = "ab" * 32
SIZE = 500
ALLOWED = ((1e-4,) * 7,)


def known(errors: Iterable[Array], before: Bias = ()) -> Bias:
    """What is known of a device after results with these errors, in shares of what is allowed."""
    rng = np.random.default_rng(5)
    for shares in errors:
        own = rng.standard_normal(SIZE)
        starts = np.arange(7) * SIZE // 7
        sizes = np.sqrt(np.add.reduceat(own**2, starts) / np.diff(starts, append=SIZE))
        moved = own + shares * 1e-4 * np.repeat(sizes, np.diff(starts, append=SIZE))
        before = added(before, projected(SECRET, [own], [moved], ALLOWED))
    return before


def honest(count: int, size: float = 0.1, seed: int = 1) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [size * rng.standard_normal(SIZE) for _ in range(count)]


@given(seed=st.integers(0, 999), size=st.sampled_from([0.02, 0.1, 0.2]))
@settings(max_examples=15, deadline=None)
def test_roundings_cancel(seed: int, size: float) -> None:
    found = known(honest(40, size, seed))
    assert not is_biased(found)
    assert mean_of(found) < size


@pytest.mark.parametrize("size", [0.25, 0.5, 1.0])
def test_one_direction_adds_up_whichever_it_is(size: float) -> None:
    """Few projections can miss a direction: one in some 150 of the smallest size."""
    means = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        liar = np.sign(rng.standard_normal(SIZE)) * size
        found = known(liar + one for one in honest(FEWEST, 0.05, seed))
        means.append((is_biased(found), size / 4 < mean_of(found) < 3 * size))
        assert not is_biased(known(liar for _ in range(FEWEST - 1)))
    assert [sum(each) >= 29 for each in zip(*means, strict=True)] == [True, True]


def test_a_liar_who_waits_is_caught_as_soon() -> None:
    before = known(honest(300))
    assert not is_biased(before)
    assert is_biased(known([np.ones(SIZE)] * 16, before))


def test_what_is_below_the_limit_is_left_alone() -> None:
    assert not is_biased(known([np.full(SIZE, LIMIT / 6)] * 40))
    assert mean_of(()) == 0.0
    assert not is_biased(())


def test_the_secret_decides_and_is_enough() -> None:
    own, moved = np.ones(100), np.full(100, 1 + 5e-5)
    one = projected(SECRET, [own], [moved], ((1e-4,),))
    assert one == projected(SECRET, [own], [moved], ((1e-4,),))
    assert one != projected("cd" * 32, [own], [moved], ((1e-4,),))
    assert len(one) == DIRECTIONS
    # Half of what is allowed, in each element: that is the root of the mean square to be expected.
    many = [projected(f"{n:064x}", [own], [moved], ((1e-4,),)) for n in range(40)]
    assert np.sqrt(np.mean(np.square(many))) == pytest.approx(0.5, rel=0.2)


def test_what_is_no_error() -> None:
    whole, flags = np.arange(5), np.array([True])
    assert projected(SECRET, [whole, flags], [whole + 1, flags], ((), ())) == (0.0,) * DIRECTIONS
    odd = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    assert np.isfinite(projected(SECRET, [odd], [odd + 1], ())).all()
    empty = np.zeros(0, np.float32)
    assert projected(SECRET, [empty], [empty], ((),)) == (0.0,) * DIRECTIONS
    # Beyond what is allowed an element counts as one that is at the limit.
    far = projected(SECRET, [np.ones(4)], [np.full(4, 9.0)], ())
    assert far == projected(SECRET, [np.ones(4)], [np.full(4, 1 + LARGEST)], ())


def test_an_honest_engine_of_another_order_has_no_direction() -> None:
    graph = micro_batch(linear_loss(256), SLOTS).graph
    rng = np.random.default_rng(2)
    found: Bias = ()
    for seed in range(FEWEST):
        w = rng.standard_normal(4).astype(np.float32)
        x = rng.standard_normal((256, 3)).astype(np.float32)
        inputs = [w, x, (x @ np.array([1.0, -2.0, 0.5])).astype(np.float32)]
        own = interpret(graph, inputs)
        if not found:
            allowed = usable(measure(graph, inputs, own))
        theirs = evaluate_float32(graph, inputs, seed)
        found = added(found, projected(SECRET, own, theirs, allowed))
    assert not is_biased(found)
    assert mean_of(found) < LIMIT / 2
