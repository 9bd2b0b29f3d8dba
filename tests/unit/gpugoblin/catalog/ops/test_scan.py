from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.scan import SCAN_REDUCE
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret_wide


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("sum", [1, -1, 2, 2]),
        ("prod", [1, -2, -6, 0]),
        ("max", [1, 1, 3, 3]),
        ("min", [1, -2, -2, -2]),
    ],
)
def test_functions(function: str, expected: list[int]) -> None:
    array = np.array([1, -2, 3, 0], np.int32)
    given = {"axis": 0, "function": function, "reverse": False}
    (result,) = SCAN_REDUCE.reference([array], given)
    assert result.tolist() == expected
    assert result.dtype == np.int32
    (back,) = SCAN_REDUCE.reference([array[::-1]], {**given, "reverse": True})
    assert back[::-1].tolist() == expected


def test_an_axis_is_needed() -> None:
    with pytest.raises(GraphError, match="shapes_mismatch"):
        SCAN_REDUCE.infer([TensorSpec("float32", ())], {"axis": 0, "function": "sum"})
    with pytest.raises(GraphError, match="dtype_unsupported"):
        SCAN_REDUCE.infer([TensorSpec("bool", (2,))], {"axis": 0, "function": "sum"})


@pytest.mark.parametrize("zeros", [(), (2,), (0, 3)])
def test_running_products_with_zeros(zeros: tuple[int, ...]) -> None:
    values = np.array([1.5, -2.0, 0.5, 3.0, 1.25])
    values[list(zeros)] = 0
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (5,)))
    graph = builder.build([builder.add("scan_reduce", [x], axis=0, function="prod")])
    result = interpret_wide(gradient(graph, [0], seeded=True), [values, np.ones(5)])[1]
    expected = [
        sum(np.prod(np.delete(values[: n + 1], place)) for n in range(place, 5))
        for place in range(5)
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-12)
