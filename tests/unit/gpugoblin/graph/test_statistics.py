"""The numbers of a graph."""

from __future__ import annotations

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.memory import bound
from gpugoblin.graph.statistics import statistics


def test_a_product() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (1000, 1000)))
    product = builder.add("matmul", [x, x])
    graph = builder.build([builder.add("formula", [product], tree=call_formula("exp"))])
    found = statistics(graph)
    assert found.nodes == (("formula", 1), ("matmul", 1))
    assert (found.input_bytes, found.output_bytes, found.constant_bytes) == (4 * 10**6,) * 2 + (0,)
    assert 2 * 10**9 <= found.flops < 2.1 * 10**9
    assert found.peak_bytes == bound(graph)
    text = str(found)
    assert "2 nodes: 1 formula, 1 matmul" in text
    assert "2.01 Gflop" in text
    assert "4 MB in" in text


def test_nothing() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", ()))
    assert str(statistics(builder.build([x]))).startswith("no nodes\n0 flop")
