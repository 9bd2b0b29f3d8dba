"""Each rule says a thing in its one way."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.simplify import RULES

Steps = list[tuple[str, dict[str, object]]]
ONE: dict[str, object] = {"start": (1, 0), "stop": (5, 4), "step": (2, 1)}
CASES: list[tuple[Steps, list[str]]] = [
    ([("reshape", {"shape": (6, 4)})], []),
    ([("reshape", {"shape": (4, 6)}), ("reshape", {"shape": (6, 4)})], []),
    ([("permute", {"axes": (1, 0)}), ("permute", {"axes": (1, 0)})], []),
    ([("reshape", {"shape": (6, 1, 4)}), ("permute", {"axes": (1, 0, 2)})], ["reshape"]),
    ([("broadcast", {"shape": (1, 6, 4)}), ("broadcast", {"shape": (3, 6, 4)})], ["broadcast"]),
    ([("broadcast", {"shape": (1, 6, 4)})], ["reshape"]),
    ([("slice", ONE), ("slice", {"start": (1, 1), "stop": (2, 4), "step": (1, 2)})], ["slice"]),
    ([("slice", {"start": (0, 0), "stop": (6, 4), "step": (1, 1)})], []),
    ([("cast", {"dtype": "float32"})], []),
    ([("flip", {"axes": (0,)}), ("flip", {"axes": (0, 1)})], ["flip"]),
    ([("flip", {"axes": ()})], []),
    ([("concat", {"axis": 0})], []),
    ([("reduce", {"function": "sum", "axes": (0,), "keepdims": True})], ["reduce", "reshape"]),
    ([("reduce_arg", {"function": "argmax", "axis": 1, "keepdims": True})],
     ["reduce_arg", "reshape"]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_rules(number: int) -> None:
    steps, expected = CASES[number]
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (6, 4)))
    for operator, attributes in steps:
        value = builder.add(operator, [value], **attributes)
    graph = builder.build([value])
    found = canonicalise(graph)
    assert [node.operator for node in found.nodes] == expected
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    np.testing.assert_array_equal(interpret(found, [array])[0], interpret(graph, [array])[0])


def test_padding_with_nothing() -> None:
    builder = GraphBuilder()
    x, zero = builder.input(TensorSpec("float32", (3,))), builder.constant(np.float32(0))
    padded = builder.add("pad", [x, zero], low=(0,), high=(0,), between=(0,))
    assert canonicalise(builder.build([padded])).nodes == ()


def test_every_rule_is_tried_here() -> None:
    assert {operator for steps, _ in CASES for operator, _ in steps} | {"pad"} == set(RULES)
