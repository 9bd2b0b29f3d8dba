from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.building import (
    call,
    expression,
    filled,
    joined,
    reduced,
    reshaped,
    spread,
    sum_to,
)
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret


@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 4), (3, 1), (1, 1), (1,), ()])
def test_sum_to_undoes_a_broadcast(shape: tuple[int, ...]) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (3, 4)))
    (result,) = interpret(builder.build([sum_to(builder, value, shape)]), [array])
    assert result.shape == shape
    axes = tuple(a for a in range(2) if a < 2 - len(shape) or shape[a - 2 + len(shape)] == 1)
    np.testing.assert_array_equal(result.ravel(), array.sum(axes).ravel())


def test_nothing_is_written_where_nothing_is_to_do() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (3, 4)))
    assert reshaped(builder, value, (3, 4)) == value
    assert spread(builder, value, (3, 4)) == value
    assert sum_to(builder, value, (3, 4)) == value


@pytest.mark.parametrize("count", [1, 2, 64, 65, 200])
def test_more_tensors_than_a_node_takes_are_joined(count: int) -> None:
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (2, 1 + n % 3))) for n in range(count)]
    graph = builder.build([joined(builder, values, axis=1)])
    rng = np.random.default_rng(count)
    given = [rng.standard_normal(spec.shape).astype(np.float32) for spec in graph.inputs]
    (found,) = interpret(graph, given)
    assert np.array_equal(found, np.concatenate(given, axis=1))


def test_short_names() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2, 3)))
    ones = filled(builder, builder.spec(value), 1.0)
    total = reduced(builder, "sum", call(builder, "add", value, ones), (1, 0))
    twice = expression(builder, [total], lambda build, x: build.call("add", x, x))
    graph = builder.build([twice, filled(builder, TensorSpec("bool", ()), True)])
    results = interpret(graph, [np.zeros((2, 3), np.float32)])
    assert results[0].tolist() == [[12.0]]
    assert results[1].item() is True
