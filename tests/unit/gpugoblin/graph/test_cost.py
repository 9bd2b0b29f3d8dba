from __future__ import annotations

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Cost, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.cost import cost, node_cost


def test_costs_of_nodes_add_up_and_scratch_is_the_largest() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (10, 20)))
    w = builder.input(TensorSpec("float32", (20, 30)))
    y = builder.add("matmul", [x, w])
    z = builder.add("formula", [y], tree=call_formula("neg"))
    best = builder.add("reduce_arg", [z], axis=1, function="argmax")
    graph = builder.build([best])
    product, sign, search = (node_cost(node, graph.specs()) for node in graph.nodes)
    assert product == Cost(2 * 10 * 20 * 30, 800 + 2400, 1200)
    assert sign.flops == 300
    total = cost(graph)
    assert total.flops == product.flops + sign.flops + search.flops
    assert total.bytes_read == product.bytes_read + sign.bytes_read + search.bytes_read
    assert total.bytes_written == 1200 + 1200 + 80
    assert total.scratch_bytes == max(sign.scratch_bytes, search.scratch_bytes)


def test_reshape_is_free() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (10, 20)))
    graph = builder.build([builder.add("reshape", [x], shape=(200,))])
    assert cost(graph) == Cost(0, 0, 0)
