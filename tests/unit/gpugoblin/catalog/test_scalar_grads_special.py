from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.plain import evaluate_plain
from gpugoblin.catalog.scalar_grads_special import SPECIAL_GRADIENTS
from gpugoblin.catalog.scalars import SCALARS


def slopes(name: str, *values: float) -> list[float]:
    builder = FormulaBuilder()
    operands = [builder.input(place) for place in range(len(values))]
    seed = builder.const("float32", 1.0)
    shares = SPECIAL_GRADIENTS[name](builder, operands, builder.call(name, *operands), seed)
    found = []
    for share in shares:
        tree = builder.build(share if share is not None else builder.const("float32", 0.0))
        inputs = [np.array([value], np.float32) for value in values]
        found.append(float(np.ravel(evaluate_plain(tree, inputs))[0]))
    return found


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("clamp", (0.5, 0.0, 1.0), [1, 0, 0]),
        ("clamp", (-1.0, 0.0, 1.0), [0, 1, 0]),
        ("clamp", (2.0, 0.0, 1.0), [0, 0, 1]),
        ("clamp", (0.5, 1.0, 0.0), [0, 0, 1]),
        ("fmin", (np.nan, 1.0), [0, 1]),
        ("fmax", (2.0, 2.0), [0.5, 0.5]),
        ("copysign", (2.0, -1.0), [-1, 0]),
        ("nextafter", (2.0, 3.0), [1, 0]),
        ("xlogy", (0.0, 0.0), [0, np.nan]),
        ("sinc", (0.0,), [0]),
        ("digamma", (1.0,), [np.pi**2 / 6]),
        ("digamma", (-0.5,), [8.9348022]),
        ("lgamma", (1.0,), [-0.57721566]),
    ],
)
def test_derivatives_at_edges(name: str, values: tuple[float, ...], wanted: list[float]) -> None:
    np.testing.assert_allclose(slopes(name, *values), wanted, rtol=2e-6)


def test_every_rule_belongs_to_a_function() -> None:
    assert set(SPECIAL_GRADIENTS) <= set(SCALARS)
