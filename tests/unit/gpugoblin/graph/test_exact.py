from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.exact import interpret_exact, not_exact


def test_sums_are_made_in_the_order_that_is_written_down() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (1300,)))
    graph = builder.build([builder.add("reduce", [x], function="sum", axes=(0,))])
    values = (np.random.default_rng(1).standard_normal(1300) * 1e3).astype(np.float32)
    blocks = []
    for start in range(0, 1300, 512):
        total = values[start]
        for value in values[start + 1 : start + 512]:
            total = np.float32(total + value)
        blocks.append(total)
    expected = np.float32(np.float32(blocks[0] + blocks[1]) + blocks[2])
    (found,) = interpret_exact(graph, [values])
    assert found.view(np.uint32) == expected.view(np.uint32)


def test_every_nan_has_one_pattern() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3,)))
    graph = builder.build([x, builder.add("formula", [x], tree=call_formula("log"))])
    odd = np.array([0x7FC12345, 0xFFC00000, 0xBF800000], np.uint32).view(np.float32)
    kept, logs = interpret_exact(graph, [odd])
    patterns = [hex(word) for word in kept.view(np.uint32).tolist()]
    assert patterns == ["0x7fc00000", "0x7fc00000", "0xbf800000"]
    assert set(logs.view(np.uint32).tolist()) == {0x7FC00000}


def test_random_normals_and_factorizations_are_outside() -> None:
    builder = GraphBuilder()
    key = builder.input(TensorSpec("int64", (2,)))
    drawn = builder.add("random", [key], function="normal", shape=(4,))
    assert not_exact(builder.build([drawn])) == "random"
    drawn = builder.add("random", [key], function="uniform", shape=(4,))
    assert not_exact(builder.build([drawn])) is None
