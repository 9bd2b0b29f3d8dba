"""The choice of a plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.exact import interpret_exact, not_exact
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.planner import plan
from gpugoblin.plan.spec import Limits
from gpugoblin.units import MIB
from tests.helpers.graphs import graphs, inputs_of
from tests.helpers.plans import require_rules, run_plan
from tests.helpers.programs import chain, epilogue, float32, reduction


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


def exact(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """By the exact interpreter, which gives some scalars as arrays of one element."""
    found = interpret_exact(graph, inputs)
    return [one.reshape(spec.shape) for one, spec in zip(found, graph.output_specs(), strict=True)]


def random_exact(data: st.DataObject) -> None:
    """In class `exact` the tiles give the bits of the unsplit graph."""
    graph = data.draw(graphs(max_nodes=4))
    if not_exact(graph) is not None:
        reject()
    share = data.draw(st.sampled_from([0.3, 0.5, 0.7, 0.9]))
    limits = Limits(max(320, int(bound(graph) * share)), ordered=True)
    inputs = data.draw(inputs_of(graph))
    try:
        found = plan(graph, limits)
    except PlanError:
        reject()
    require_rules(found, limits)
    whole = interpret_exact(graph, inputs)
    for one, other in zip(run_plan(found, inputs, exact), whole, strict=True):
        assert one.tobytes() == other.tobytes()


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_graphs_in_class_exact(data: st.DataObject) -> None:
    random_exact(data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_many_random_graphs_in_class_exact(data: st.DataObject) -> None:
    random_exact(data)


def test_exact_sums_are_not_cut() -> None:
    """A product with its epilogue in tiles of whole inner axes, all repeated by the lab; a sum of
    floats over what does not fit is refused, one of integers is cut."""
    limits = Limits(20_000, ordered=True)
    graph = epilogue(90, 40, 70)
    found = plan(graph, limits)
    assert found.count > 1
    assert all(found.task(n).verify == "recompute" for n in range(found.count))
    inputs = [
        np.random.default_rng(n).standard_normal(spec.shape).astype(np.float32)
        for n, spec in enumerate(graph.inputs)
    ]
    (whole,) = interpret_exact(graph, inputs)
    (parts,) = run_plan(found, inputs, exact)
    assert parts.tobytes() == whole.tobytes()
    with pytest.raises(PlanError):
        plan(reduction("sum", (0,), 100_000), limits)
    builder = GraphBuilder()
    x = builder.input(TensorSpec("int32", (100_000,)))
    total = builder.build([builder.add("reduce", [x], function="sum", axes=(0,), keepdims=False)])
    assert plan(total, limits).count > 1


def test_attention_of_one_head_is_cut_by_queries() -> None:
    """As its steps, where the composite fits nowhere; with heads it stays one node a head."""
    for shape, kept in (((300, 8), False), ((6, 50, 8), True)):
        builder = GraphBuilder()
        q, k, v = (builder.input(float32(*shape)) for _ in range(3))
        scale = builder.constant(np.array(0.5, np.float32))
        made = builder.add("attention", [q, k, v, scale], causal=True)
        graph = builder.build([made])
        limits = Limits(int(bound(graph) * 0.4))
        found = plan(graph, limits)
        assert found.count > 1
        require_rules(found, limits)
        operators = {node.operator for node in found.task(0).graph.nodes}
        assert ("attention" in operators) == kept
