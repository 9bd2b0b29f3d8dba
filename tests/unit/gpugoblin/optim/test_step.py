from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.numeric import agrees, error_bounds
from gpugoblin.optim.adam import AdamW
from gpugoblin.optim.schedules import Cosine, Warmup
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import STEP
from tests.helpers.training import SHAPES, gradients_at, parameters


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def test_inputs_and_outputs() -> None:
    made = AdamW(1e-3).step_graph([f32(3, 2), f32(4)])
    assert made.graph.inputs == (
        *(f32(3, 2), f32(4)) * 2, *(f32(3, 2),) * 2, *(f32(4),) * 2, STEP,
    )  # fmt: skip
    assert made.graph.output_specs() == (f32(3, 2), f32(4), *(f32(3, 2),) * 2, *(f32(4),) * 2)
    assert [(number, slot.name) for number, slot in made.state] == [
        (0, "mean"), (0, "square"), (1, "mean"), (1, "square"),
    ]  # fmt: skip
    assert [array.shape for array in made.initial()] == [(3, 2), (3, 2), (4,), (4,)]


def test_one_graph_serves_all_steps() -> None:
    """A step in float32 is within the proven bounds of the same in float64."""
    made = AdamW(Warmup(Cosine(0.1, 50), 5)).step_graph([f32(*s) for s in SHAPES], clip_norm=1.0)
    values = [array.astype(np.float32) for array in parameters()]
    state = made.initial()
    for step in (0, 3, 40):
        slopes = [array.astype(np.float32) for array in gradients_at(step)]
        inputs = [*values, *slopes, *state, np.array(step)]
        found = interpret(made.graph, inputs)
        exact, bounds = error_bounds(made.graph, inputs)
        for one, reference, bound in zip(found, exact, bounds, strict=True):
            assert agrees(one, reference, bound).all()
        values, state = list(found[: len(SHAPES)]), list(found[len(SHAPES) :])


@pytest.mark.parametrize("norm", [0.5, 1e6])
def test_clipping(norm: float) -> None:
    made = SGD(1.0).step_graph([f32(*shape) for shape in SHAPES], clip_norm=norm)
    values = [array.astype(np.float32) for array in parameters()]
    slopes = [array.astype(np.float32) for array in gradients_at(2)]
    found = interpret(made.graph, [*values, *slopes, np.array(0)])
    size = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in slopes))
    scale = min(1.0, norm / (size + 1e-6))
    for value, slope, after in zip(values, slopes, found, strict=True):
        np.testing.assert_allclose(after, value - scale * slope, rtol=1e-4, atol=1e-5)


def test_many_parameters_and_none() -> None:
    made = SGD(1.0).step_graph([f32(2)] * 100, clip_norm=1.0)
    ones = [np.ones(2, np.float32)] * 100
    found = interpret(made.graph, [*ones, *ones, np.array(0)])
    np.testing.assert_allclose(np.stack(found), 1 - 1 / np.sqrt(200), rtol=1e-6)
    with pytest.raises(GraphError, match="there is none"):
        SGD(1.0).step_graph([], clip_norm=1.0)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(GraphError, match="dtype_unsupported"):
        SGD(1.0).step_graph([TensorSpec("int64", (3,))])
    for norm in (0.0, -1.0, float("nan")):
        with pytest.raises(GraphError, match="clip_norm"):
            SGD(1.0).step_graph([f32(3)], clip_norm=norm)
