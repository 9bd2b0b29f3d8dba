"""Which graph gets which plan."""

from __future__ import annotations

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.planner import plan
from gpugoblin.plan.spec import Limits

MIB = 1024 * 1024


def test_products_are_planned_as_products() -> None:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (3000, 500)))
    graph = builder.build([builder.add("matmul", [a, a], transpose_b=True)])
    summary = plan(graph, Limits(16 * MIB)).summary()
    assert summary.kind == "product"
    assert summary.tasks > 1


def test_what_fits_is_one_task() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (100, 100)))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("tanh"))])
    made = plan(graph, Limits(MIB))
    assert made.count == 1
    assert made.task(0).verify == "recompute"
