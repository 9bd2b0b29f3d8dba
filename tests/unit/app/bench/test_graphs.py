from __future__ import annotations

import numpy as np
import pytest

from app.bench.graphs import INPUT_BYTES, OUTPUT_BYTES, passes, products
from app.engine.backends.card.layout import lay_out, require_served
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph

KEY = np.array([1, 2], np.int64)


def require_small_ends(graph: Graph) -> None:
    assert [spec.nbytes for spec in graph.inputs] == [INPUT_BYTES]
    assert [spec.nbytes for spec in graph.output_specs()] == [OUTPUT_BYTES]


def stages(graph: Graph) -> int:
    layout = lay_out(require_served(graph), lambda node, specs: None)
    return sum(len(step.stages) for step in layout.steps)


@pytest.mark.parametrize("numeric_class", ["float32", "float16", "bfloat16", "exact"])
def test_products_are_those_of_a_job_in_the_class(numeric_class: str) -> None:
    graph = products(16, numeric_class, 3)
    require_small_ends(graph)
    assert [node.operator for node in graph.nodes].count("matmul") == 3
    assert not_exact(graph) is None
    # The matrix once, and two results.
    roundings = 0 if numeric_class in ("float32", "exact") else 3
    assert [node.operator for node in graph.nodes].count("formula") == 1 + roundings
    (total,) = interpret(graph, [KEY])
    assert np.isfinite(total)
    assert abs(total) < 16**2


def test_each_pass_is_a_kernel_of_its_own() -> None:
    few, many = passes(256, 1), passes(256, 7)
    require_small_ends(few)
    require_small_ends(many)
    assert stages(many) - stages(few) == 6
    (total,) = interpret(many, [KEY])
    assert total == pytest.approx(128, rel=0.05)
