from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.scatter import SCATTER
from gpugoblin.catalog.spec import Split, TensorSpec
from gpugoblin.errors import GraphError

DATA = np.array([1.0, 2.0, 3.0], np.float32)
INDICES = np.array([2, 0, 2])
UPDATES = np.array([10.0, 20.0, 30.0], np.float32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [("set", [20, 2, 30]), ("add", [21, 2, 43]), ("min", [1, 2, 3]), ("max", [20, 2, 30])],
)
def test_functions(function: str, expected: list[float]) -> None:
    (result,) = SCATTER.reference([DATA, INDICES, UPDATES], {"axis": 0, "function": function})
    assert result.tolist() == expected
    assert DATA.tolist() == [1, 2, 3]


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_is_an_error(index: int) -> None:
    with pytest.raises(GraphError, match="scatter met the index"):
        SCATTER.reference([DATA, np.array([index]), UPDATES[:1]], {"axis": 0, "function": "add"})


def test_updates_must_have_the_indices_axes() -> None:
    specs = [
        TensorSpec("float32", (4, 5)),
        TensorSpec("int32", (2,)),
        TensorSpec("float32", (3, 5)),
    ]
    with pytest.raises(GraphError, match=r"updates of shape \(2, 5\)"):
        SCATTER.infer(specs, {"axis": 0, "function": "add"})


def test_only_set_takes_bools() -> None:
    specs = [TensorSpec("bool", (4,)), TensorSpec("int32", (2,)), TensorSpec("bool", (2,))]
    assert SCATTER.infer(specs, {"axis": 0, "function": "set"}) == (specs[0],)
    with pytest.raises(GraphError, match="dtype_unsupported"):
        SCATTER.infer(specs, {"axis": 0, "function": "max"})


def test_the_scattered_axis_stays_whole() -> None:
    specs = [TensorSpec("float32", s) for s in ((4, 5), (2, 3), (2, 3, 5))]
    assert SCATTER.splits(specs, {"axis": 0, "function": "add"})[:2] == (
        Split("d0", "whole", (0, None, None), 0),
        Split("d1", "parallel", (1, None, 2), 1),
    )


def test_errors() -> None:
    propagate = SCATTER.tolerance.propagate
    assert propagate is not None
    given = {"axis": 0, "function": "set"}
    inputs = [DATA, INDICES, UPDATES]
    outputs = SCATTER.reference(inputs, given)
    assert propagate(inputs, (None, None, None), outputs, given) == (None,)
    (error,) = propagate(inputs, (None, None, np.array([1.0, 2.0, 3.0])), outputs, given)
    assert error is not None
    assert error.tolist() == [2.0, 0.0, 3.0]
    (error,) = propagate(inputs, (None, np.array([0.0, 1.0, 0.0]), None), outputs, given)
    assert error is not None
    assert np.isinf(error).all()
    given = {"axis": 0, "function": "add"}
    (error,) = propagate(inputs, (None, None, None), SCATTER.reference(inputs, given), given)
    assert error is not None
    assert (error > 0).all()
    assert (error < 1e-4).all()
