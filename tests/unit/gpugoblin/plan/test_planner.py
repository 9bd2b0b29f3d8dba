"""The choice of a plan."""

from __future__ import annotations

import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.plan.planner import plan
from gpugoblin.plan.spec import Limits
from gpugoblin.units import MIB
from tests.helpers.programs import chain, float32, reduction


def test_kinds() -> None:
    builder = GraphBuilder()
    a, b = builder.input(float32(40, 50)), builder.input(float32(50, 60))
    product = builder.build([builder.add("matmul", [a, b])])
    assert plan(product, Limits(MIB)).summary().kind == "product"
    assert plan(product, Limits(MIB), block_axis=0).summary().kind == "blocks"
    assert plan(chain(40, 50), Limits(MIB)).summary().kind == "single"
    assert plan(chain(400, 5000), Limits(MIB)).summary().kind == "blocks"


def test_the_axis_is_the_only_one_cut() -> None:
    found = plan(chain(100, 5000), Limits(MIB), block_axis=1)
    for index in range(found.count):
        (place,) = found.task(index).outputs
        assert (place.region.start[0], place.region.stop[0]) == (0, 100)
    assert found.count > 1


def test_an_axis_that_is_mixed_is_refused() -> None:
    with pytest.raises(PlanError) as caught:
        plan(reduction("sum", (0,), 10, 10), Limits(MIB), block_axis=1)
    assert caught.value.code == "plan_block_axis"
    with pytest.raises(PlanError) as caught:
        plan(chain(10, 10**6), Limits(MIB), block_axis=0)
    assert caught.value.code == "plan_does_not_fit"


def test_an_operator_without_inputs_is_cut_around() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("int64", (64, 64)))
    line = builder.add("iota", [], count=64)
    graph = builder.build([builder.add("formula", [x, line], tree=call_formula("add"))])
    assert plan(graph, Limits(memory_bytes=40_000, slot_bytes=40_000)).count > 1
