from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.along import axis_last, axis_restored, scatter_along, take_along
from gpugoblin.catalog.prove import specs_of
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret

DATA = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_taking_and_putting_back(axis: int, dtype: str) -> None:
    order = np.argsort(DATA, axis=axis).astype(dtype)
    builder = GraphBuilder()
    data, indices = (builder.input(spec) for spec in specs_of([DATA, order]))
    taken = take_along(builder, data, indices, axis)
    back = scatter_along(builder, taken, indices, axis, DATA.shape[axis])
    results = interpret(builder.build([taken, back]), [DATA, order])
    np.testing.assert_array_equal(results[0], np.take_along_axis(DATA, order, axis))
    np.testing.assert_array_equal(results[1], DATA)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_axis_goes_last_and_comes_back(axis: int) -> None:
    builder = GraphBuilder()
    data = builder.input(specs_of([DATA])[0])
    last = axis_last(builder, data, axis)
    graph = builder.build([last, axis_restored(builder, last, axis)])
    results = interpret(graph, [DATA])
    np.testing.assert_array_equal(results[0], np.moveaxis(DATA, axis, -1))
    np.testing.assert_array_equal(results[1], DATA)
