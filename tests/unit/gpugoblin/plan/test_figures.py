"""Figures of tasks and stages."""

from __future__ import annotations

from dataclasses import replace

from gpugoblin.graph.memory import bound
from gpugoblin.plan.figures import burden, fits, measure, roughly, total, work
from gpugoblin.plan.flow import Flow, Sink, trace
from gpugoblin.plan.spans import Span, full
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.tilegraph import evaluate
from tests.helpers.programs import chain


def test_measure() -> None:
    graph = chain(100, 10)
    found = measure(graph, [((100, 10), (100, 10)), ((20, 5), (100, 10))], 1)
    assert found.bytes_in == found.bytes_out == found.largest_bytes == 4000
    assert found.bound_bytes == bound(graph)
    assert (found.inputs, found.verify, found.verify_flops) == (1, "recompute", found.flops)
    assert found.runs == 1 + 20


def test_runs_of_boxes() -> None:
    graph = chain(4)
    for box, whole, runs in [
        ((4, 5, 6), (4, 5, 6), 1),
        ((2, 5, 6), (4, 5, 6), 1),
        ((2, 3, 6), (4, 5, 6), 2),
        ((2, 3, 1), (4, 5, 6), 6),
        ((), (), 1),
    ]:
        assert measure(graph, [(box, whole)], 1).runs == runs


def test_totals_fit_and_weigh() -> None:
    one = measure(chain(100, 10), [], 1)
    larger = replace(one, bound_bytes=2 * one.bound_bytes, inputs=3)
    found = total([(3, one), (2, larger)])
    assert (found.tasks, found.flops, found.inputs) == (5, 5 * one.flops, 3)
    assert found.bound_bytes == 2 * one.bound_bytes
    assert fits(found, Limits(found.bound_bytes, slot_bytes=4000))
    assert not fits(found, Limits(found.bound_bytes - 1, slot_bytes=4000))
    assert not fits(found, Limits(found.bound_bytes, slot_bytes=3999))
    assert not fits(replace(found, inputs=201), Limits(found.bound_bytes))
    assert burden(found) > work(found) > found.flops + found.verify_flops


def test_rough_figures_have_the_flops_of_exact_ones() -> None:
    flow = Flow.of(chain(12, 5))
    program = trace(flow, [Sink(flow.graph.outputs[0], (Span(0), full(5)))], {}, [(0, 4)])
    rough = roughly(flow, program, evaluate(flow, program, [(0, 12)]))
    assert rough.flops == measure(flow.graph, [], 1).flops
    assert rough.bytes_in == 240
