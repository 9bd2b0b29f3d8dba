"""Dynamic programming over a line."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from gpugoblin.plan.cutting import Pace, Span, Weights, cut_for_bytes, cut_for_pace


def weights(seed: int, count: int = 8) -> Weights:
    random = np.random.default_rng(seed)
    crossing = random.integers(1, 20, count + 1).astype(np.float64)
    crossing[0] = crossing[-1] = 0
    return Weights(
        held=random.integers(0, 30, count).astype(np.float64),
        inner=random.integers(1, 30, count).astype(np.float64),
        scratch=random.integers(0, 40, count).astype(np.float64),
        crossing=crossing,
        inputs=np.ones(count),
        flops=random.integers(1, 50, count).astype(np.float64),
    )


def every_cut(count: int) -> list[list[Span]]:
    found = []
    for cuts in range(count):
        for places in combinations(range(1, count), cuts):
            ends = [0, *places, count]
            found.append(list(pairwise(ends)))
    return found


def memory(one: Weights, span: Span) -> float:
    return sum(one.parts(*span))


@pytest.mark.parametrize("seed", range(12))
def test_fewest_bytes_of_all_cuts(seed: int) -> None:
    one = weights(seed)
    allowed = [
        cuts for cuts in every_cut(8) if all(memory(one, span) <= 220 for span in cuts)
    ]  # fmt: skip

    def cost(cuts: list[Span]) -> float:
        return sum(float(one.crossing[start]) + 1 for start, _ in cuts)

    found = cut_for_bytes(one, 220, 100, 1, {})
    assert found in allowed
    assert cost(found) == min(map(cost, allowed))


@pytest.mark.parametrize("seed", range(12))
def test_shortest_slowest_of_all_cuts(seed: int) -> None:
    one, pace = weights(seed), Pace(flops_per_s=10, bytes_per_s=3)
    allowed = [
        cuts
        for cuts in every_cut(8)
        if len(cuts) <= 4 and all(memory(one, span) <= 220 for span in cuts)
    ]

    def slowest(cuts: list[Span]) -> float:
        return max(
            max(
                3 * float(one.flops[start:stop].sum()) / 10,
                2 * float(one.crossing[start] + one.crossing[stop]) / 3,
            )
            for start, stop in cuts
        )

    found = cut_for_pace(one, 220, 100, pace, 4, {})
    if not allowed:
        assert found == []
    else:
        assert found in allowed
        assert slowest(found) == pytest.approx(min(map(slowest, allowed)))


def test_memory_of_all_spans_at_once() -> None:
    one = weights(3)
    for stop in range(1, 9):
        expected = [memory(one, (start, stop)) for start in range(stop)]
        np.testing.assert_allclose(one.memory(stop), expected)


def test_a_task_takes_so_many_inputs_and_no_more() -> None:
    spans = cut_for_bytes(weights(0), 1e9, 3, 1, {})
    assert max(stop - start for start, stop in spans) == 3


def test_where_nothing_fits_only_tiled_spans_help() -> None:
    one = weights(0)
    one.inner[4] = 1e6
    assert cut_for_bytes(one, 300, 100, 1, {}) == []
    assert cut_for_pace(one, 300, 100, Pace(1, 1), 8, {}) == []
    spans = cut_for_bytes(one, 300, 100, 1, {(3, 6): 5.0, (4, 5): 5000.0})
    assert (3, 6) in spans
    assert (4, 5) in cut_for_pace(one, 300, 100, Pace(1, 1), 8, {(4, 5): 0.0})
