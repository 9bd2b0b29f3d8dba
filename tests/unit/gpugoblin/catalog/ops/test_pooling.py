from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.pooling import POOL
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret

PLAIN: Attributes = {
    "function": "max",
    "window": (2, 2),
    "stride": (2, 2),
    "dilation": (1, 1),
    "low": (0, 0),
    "high": (0, 0),
}


def test_maxima_and_sums() -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert POOL.reference([array], PLAIN)[0].tolist() == [[5, 7], [13, 15]]
    sums = {**PLAIN, "function": "sum"}
    assert POOL.reference([array], sums)[0].tolist() == [[10, 18], [42, 50]]
    padded = {**PLAIN, "low": (1, 1), "high": (1, 1)}
    assert POOL.reference([-array], padded)[0][0].tolist() == [0, -1, -3]


def test_the_first_of_equal_elements_in_c_order_gets_the_seed() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 4)))
    given = {**PLAIN, "stride": (1, 2)}
    joint = gradient(builder.build([builder.add("pool", [x], **given)]), [0], seeded=True)
    array = np.array([[1, 3, 0, 2], [3, 3, 2, 2]], np.float32)
    seed = np.array([[10, 20]], np.float32)
    assert interpret(joint, [array, seed])[1].tolist() == [[0, 10, 0, 20], [0, 0, 0, 0]]


def test_what_makes_no_window_is_refused() -> None:
    with pytest.raises(GraphError, match="shapes_mismatch"):
        POOL.infer([TensorSpec("float32", (4,))], PLAIN)
    with pytest.raises(GraphError, match="attribute_invalid"):
        POOL.infer([TensorSpec("float32", (4, 4))], {**PLAIN, "window": (0, 1)})
