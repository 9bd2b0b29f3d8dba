"""Whole graphs as one task."""

from __future__ import annotations

import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.single import SinglePlan, fits, whole
from gpugoblin.plan.spec import ArrayRegion, Limits, OutputPlace


def tanh(*shape: int) -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", shape))
    return builder.build([builder.add("formula", [x], tree=call_formula("tanh"))])


def test_one_task_with_everything() -> None:
    graph = tanh(4, 5)
    plan = SinglePlan(graph)
    task = plan.task(0)
    everything = whole(graph.inputs[0])
    assert plan.count == plan.summary().tasks == 1
    assert task.graph is graph
    assert task.inputs == (ArrayRegion(0, everything),)
    assert task.outputs == (OutputPlace(0, everything),)
    assert (task.verify, task.depends_on) == ("recompute", ())
    assert task.verify_flops == task.flops == plan.summary().flops > 0
    assert task.bytes_moved == 2 * 4 * 5 * 4
    assert plan.consumers(0) == ()
    assert plan.inputs == graph.inputs
    assert plan.outputs == graph.output_specs()


def test_there_is_no_other_task() -> None:
    for index in (-1, 1):
        with pytest.raises(PlanError) as caught:
            SinglePlan(tanh(3)).task(index)
        assert caught.value.code == "plan_task_unknown"


def test_fits() -> None:
    graph = tanh(1000)
    assert fits(graph, Limits(1 << 20))
    assert not fits(graph, Limits(5000))
    assert not fits(graph, Limits(1 << 20, slot_bytes=3999))
