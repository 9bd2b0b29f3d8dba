from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret

X = np.array([-3, -1, -0.5, 0, 0.5, 1, 2], np.float32)
Y = np.zeros(7, np.float32)


def run(name: str, bend: float) -> list[float]:
    (found,) = get(name).reference([X, Y, np.array(bend, np.float32)], {})
    values: list[float] = found.tolist()
    return values


def test_huber() -> None:
    assert run("huber", 1.0) == [2.5, 0.5, 0.125, 0, 0.125, 0.5, 1.5]
    assert run("huber", 2.0) == [4, 0.5, 0.125, 0, 0.125, 0.5, 2]


def test_smooth_l1() -> None:
    assert run("smooth_l1", 1.0) == [2.5, 0.5, 0.125, 0, 0.125, 0.5, 1.5]
    assert run("smooth_l1", 2.0) == [2, 0.25, 0.0625, 0, 0.0625, 0.25, 1]
    assert run("smooth_l1", 0.0) == [3, 1, 0.5, 0, 0.5, 1, 2]


@pytest.mark.parametrize("bend", [0.0, 0.7])
def test_the_derivative_of_smooth_l1_is_bounded_also_without_a_bend(bend: float) -> None:
    builder = GraphBuilder()
    inputs = [builder.input(TensorSpec("float32", shape)) for shape in ((7,), (7,), ())]
    losses = builder.add("smooth_l1", inputs)
    total = builder.add("reduce", [losses], function="sum", axes=(0,), keepdims=False)
    graph = gradient(builder.build([total]), [0])
    found: Array = interpret(graph, [X, Y, np.array(bend, np.float32)])[1]
    expected = np.clip(X / bend, -1, 1) if bend else np.sign(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["huber", "smooth_l1"])
def test_what_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(GraphError, match="the first two must be equal"):
        get(name).infer([TensorSpec("float32", s) for s in ((3,), (1,), ())], {})
    with pytest.raises(GraphError, match="must be a scalar"):
        get(name).infer([TensorSpec("float32", s) for s in ((3,), (3,), (1,))], {})


@pytest.mark.parametrize("bend", [0.5, 1.5])
def test_against_torch(bend: float) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    functional = torch.nn.functional
    x, y = torch.tensor(X), torch.tensor(Y)
    huber = functional.huber_loss(x, y, delta=bend, reduction="none")
    np.testing.assert_allclose(run("huber", bend), huber, rtol=1e-6)
    smooth = functional.smooth_l1_loss(x, y, beta=bend, reduction="none")
    np.testing.assert_allclose(run("smooth_l1", bend), smooth, rtol=1e-6)
