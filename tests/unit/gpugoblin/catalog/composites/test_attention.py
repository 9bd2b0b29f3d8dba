from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError

GENERATOR = np.random.default_rng(0)
Q, K, V = (GENERATOR.standard_normal((2, n, 4)).astype(np.float32) for n in (5, 5, 5))
SCALE = np.array(0.5, np.float32)


def test_causal_is_a_triangle_of_bools_or_of_infinities() -> None:
    attention = get("attention")
    (causal,) = attention.reference([Q, K, V, SCALE], {"causal": True})
    seen = np.tril(np.ones((5, 5), np.bool_))
    (bools,) = attention.reference([Q, K, V, SCALE, seen], {"causal": False})
    added = np.where(seen, 0, -np.inf).astype(np.float32)
    (floats,) = attention.reference([Q, K, V, SCALE, added], {"causal": False})
    np.testing.assert_array_equal(causal, bools)
    np.testing.assert_array_equal(causal, floats)
    np.testing.assert_allclose(causal[:, 0], V[:, 0], rtol=1e-6)


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


@pytest.mark.parametrize(
    "specs",
    [
        (f32(5, 4), f32(6, 3), f32(6, 4), f32()),
        (f32(5, 4), f32(6, 4), f32(5, 4), f32()),
        (f32(2, 5, 4), f32(6, 4), f32(6, 4), f32()),
        (f32(5, 4), f32(6, 4), f32(6, 4), f32(1)),
        (f32(5, 4), f32(6, 4), f32(6, 4), f32(), f32(6, 5)),
        (f32(5, 4), f32(6, 4), f32(6, 4), f32(), TensorSpec("int32", (5, 6))),
    ],
)
def test_what_does_not_fit_is_refused(specs: tuple[TensorSpec, ...]) -> None:
    with pytest.raises(GraphError, match="attention"):
        get("attention").infer(specs, {"causal": False})
