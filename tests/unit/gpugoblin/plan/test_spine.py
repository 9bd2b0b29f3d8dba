"""Programs as lines: what crosses a place, and what is made again."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spine import line_of


def residual() -> Graph:
    """x + tanh(tanh(x)) with x = a @ w."""
    build = GraphBuilder()
    a, w = (build.input(TensorSpec("float32", shape)) for shape in ((64, 32), (32, 32)))
    x = build.add("matmul", [a, w])
    y = build.add("formula", [x], tree=call_formula("tanh"))
    z = build.add("formula", [y], tree=call_formula("tanh"))
    return build.build([build.add("formula", [x, z], tree=call_formula("add"))])


def test_what_crosses_each_place() -> None:
    line = line_of(residual(), frozenset({1}))
    one = 64 * 32 * 4
    assert line.spine == (0, 1, 2, 3)
    np.testing.assert_array_equal(line.crossing_bytes, [0, one, 2 * one, 2 * one, 0])
    assert line.reads == ((0, 1), (2,), (3,), (2, 4))
    assert line.weight_bytes == (32 * 32 * 4, 0, 0, 0)
    assert line.input_counts == (2, 0, 0, 0)
    assert line.makers == {2: 0, 3: 1, 4: 2, 5: 3}
    assert line.last_readers == {0: 0, 1: 0, 2: 3, 3: 2, 4: 3}


def test_a_mask_is_made_again() -> None:
    """Of `iota`, a reshape and a comparison; it has no place of its own."""
    build = GraphBuilder()
    given = build.input(TensorSpec("float32", (64, 64)))
    x = build.add("matmul", [given, given])
    rows = build.add("reshape", [build.add("iota", [], count=64)], shape=(64, 1))
    mask = build.add("formula", [rows, build.add("iota", [], count=64)], tree=call_formula("ge"))
    for _ in range(2):
        number = build.add("cast", [mask], dtype="float32")
        x = build.add(
            "softmax", [build.add("formula", [x, number], tree=call_formula("mul"))], axis=1
        )
    line = line_of(build.build([x]), frozenset({0}))
    operators = [line.graph.nodes[number].operator for number in line.spine]
    assert operators == ["matmul", *["formula", "softmax"] * 2]
    assert [len(taken) for taken in line.takes] == [0, 4, 0, 4, 0]
    assert line.crossing_bytes.tolist() == [0, *[64 * 64 * 4] * 4, 0]


def test_a_transposed_weight_is_made_again_but_not_its_tanh() -> None:
    build = GraphBuilder()
    x, w = (build.input(TensorSpec("float32", (64, 64))) for _ in range(2))
    turned = build.add("permute", [w], axes=(1, 0))
    bent = build.add("formula", [w], tree=call_formula("tanh"))
    y = build.add("matmul", [build.add("matmul", [x, turned]), bent])
    line = line_of(build.build([build.add("matmul", [y, turned])]), frozenset({1}))
    operators = [line.graph.nodes[number].operator for number in line.spine]
    assert sorted(operators) == ["formula", "matmul", "matmul", "matmul"]
    assert [one for one in line.again] == [
        number for number, node in enumerate(line.graph.nodes) if node.operator == "permute"
    ]


def test_a_lookup_is_no_cheap_thing() -> None:
    """It reads a table far larger than what it gives."""
    build = GraphBuilder()
    table = build.input(TensorSpec("float32", (4096, 8)))
    ids = build.input(TensorSpec("int64", (4,)))
    line = line_of(build.build([build.add("gather", [table, ids], axis=0)]), frozenset())
    assert not line.again
