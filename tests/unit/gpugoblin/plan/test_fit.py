"""The choice of steps."""

from __future__ import annotations

import pytest

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.fit import TILE_BYTES, Cut, fit, radices
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.grouping import group_cut
from gpugoblin.plan.spans import Loop
from gpugoblin.plan.spec import Limits
from gpugoblin.units import GIB, MIB
from tests.helpers.programs import chain, elementwise, float32, softmax


def cut_of(graph: Graph) -> tuple[Flow, Cut]:
    flow = Flow.of(graph)
    return flow, group_cut(flow, [0])


def test_large_tiles_are_cut_to_tens_of_mebibytes() -> None:
    flow, cut = cut_of(chain(100_000, 10_000))
    found = fit(flow, cut, {}, 0, Limits(4 * GIB))
    assert found.good
    assert found.efficient
    assert TILE_BYTES / 4 <= found.totals.bound_bytes <= TILE_BYTES
    # Rows of a C-ordered file are read in one stretch.
    assert found.stage.loops[1].count == 1


def test_limits_are_kept() -> None:
    flow, cut = cut_of(softmax(1, 1000, 1000))
    for memory in (100_000, 50_000):
        found = fit(flow, cut, {}, 0, Limits(memory, slot_bytes=memory // 2))
        assert found.good
        assert found.totals.bound_bytes <= memory
        assert found.totals.largest_bytes <= memory // 2


def test_what_does_not_fit_is_said() -> None:
    flow, cut = cut_of(softmax(1, 10, 100_000))
    found = fit(flow, cut, {}, 0, Limits(100_000))
    assert not found.good
    assert not found.efficient
    assert found.totals.bound_bytes > 100_000


def test_columns_are_cut_where_rows_stay_whole() -> None:
    flow, cut = cut_of(softmax(0, 1000, 100_000))
    found = fit(flow, cut, {}, 0, Limits(64 * MIB))
    assert found.good
    assert found.stage.loops[0].count == 1
    assert found.stage.loops[1].count > 1


def test_groups_of_a_reshape_are_radices() -> None:
    builder = GraphBuilder()
    x = builder.input(float32(30, 4, 25))
    flat = builder.add("reshape", [elementwise(builder, "exp", x)], shape=(3000,))
    flow, cut = cut_of(builder.build([flat]))
    assert radices(flow, cut, {}) == ((25, 100),)
    found = fit(flow, cut, {}, 0, Limits(3000))
    assert found.good
    assert found.stage.loops[0].step in (25, 50, 100)
    assert found.totals.bytes_in == found.totals.bytes_out == 12_000


def test_a_seam_that_needs_more_is_seen() -> None:
    builder = GraphBuilder()
    parts = [elementwise(builder, "exp", builder.input(float32(n, 8))) for n in (51, 49)]
    flow, cut = cut_of(builder.build([builder.add("concat", parts, axis=0)]))
    for memory in range(1000, 6000, 500):
        found = fit(flow, cut, {}, 0, Limits(memory))
        bounds = [found.stage.task(at).memory_bound_bytes for at in range(found.stage.count)]
        assert found.good
        assert max(bounds) <= memory


@pytest.mark.parametrize("good", [True, False])
def test_fixed_loops_are_taken_as_they_are(good: bool) -> None:
    flow, cut = cut_of(chain(100, 10))
    loops = (Loop(100, 7, 100), Loop(10, 10, 10))
    fixed = Cut(cut.wants, cut.extents, cut.steps, (), fixed=loops)
    found = fit(flow, fixed, {}, 0, Limits(MIB if good else 500))
    assert found.stage.loops == loops
    assert found.good == good
