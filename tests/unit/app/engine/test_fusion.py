"""Where a chain of formulas must end."""

from __future__ import annotations

from app.engine.fusion import MAX_CHAIN_NODES, groups
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder


def formula(builder: GraphBuilder, name: str, *operands: int) -> int:
    return builder.add("formula", list(operands), tree=call_formula(name))


def test_chains_end_at_other_operators_and_shapes() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4, 5)))
    row = builder.input(TensorSpec("float32", (5,)))
    first = formula(builder, "neg", row)
    second = formula(builder, "add", x, first)
    third = formula(builder, "exp", second)
    product = builder.add("matmul", [third, third], transpose_b=True)
    last = formula(builder, "neg", product)
    found = groups(builder.build([last]), {})
    assert [(group.chain, len(group.nodes)) for group in found] == [
        (True, 1),
        (True, 2),
        (False, 1),
        (True, 1),
    ]
    assert found[1].reads == {x, first}


def test_a_place_that_is_written_while_it_is_read_ends_a_chain() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (8, 16)))
    row = builder.input(TensorSpec("float32", (16,)))
    total = builder.add("matmul", [x, x], transpose_a=True)
    part = builder.add("reduce", [total], axes=(0,), function="sum")
    first = formula(builder, "add", x, part)
    second = formula(builder, "add", first, row)
    graph = builder.build([second])
    _, _, *rest = groups(graph, {total: 0, part: 1024, first: 2048})
    assert [len(group.nodes) for group in rest] == [2]
    _, _, *rest = groups(graph, {total: 0, part: 1024, first: 2048, second: 1024})
    assert [len(group.nodes) for group in rest] == [1, 1]


def test_the_same_place_block_by_block_is_sound() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (8, 8)))
    product = builder.add("matmul", [x, x])
    first = formula(builder, "exp", product)
    second = formula(builder, "neg", first)
    graph = builder.build([second])
    same = groups(graph, {product: 64, second: 64})
    assert [len(group.nodes) for group in same] == [1, 2]
    shifted = groups(graph, {product: 64, second: 128})
    assert [len(group.nodes) for group in shifted] == [1, 1, 1]


def test_chains_have_a_longest_length() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2,)))
    for _ in range(MAX_CHAIN_NODES + 3):
        value = formula(builder, "neg", value)
    found = groups(builder.build([value]), {})
    assert [len(group.nodes) for group in found] == [MAX_CHAIN_NODES, 3]
