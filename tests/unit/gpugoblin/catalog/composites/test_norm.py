from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.errors import GraphError

DATA = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
EPSILON = np.array(1e-5, np.float32)


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def test_normalized() -> None:
    (layer,) = get("layer_norm").reference([DATA, EPSILON], {"axes": (1, 2)})
    np.testing.assert_allclose(layer.mean((1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(layer.var((1, 2)), 1, rtol=1e-4)
    (rms,) = get("rms_norm").reference([DATA, EPSILON], {"axes": (2,)})
    np.testing.assert_allclose((rms**2).mean(2), 1, rtol=1e-3)
    (group,) = get("group_norm").reference([DATA, EPSILON], {"groups": 3})
    np.testing.assert_allclose(group.reshape(2, 3, 8).var(2), 1, rtol=1e-3)
    lines = [np.arange(6, dtype=np.float32), np.full(6, 4, np.float32)]
    (batch,) = get("batch_norm").reference([DATA, EPSILON, *lines], {"axis": 1})
    np.testing.assert_allclose(batch, (DATA - lines[0][:, None]) / 2, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "specs", "attributes"),
    [
        ("layer_norm", (f32(3, 4), f32(1)), {"axes": (1,)}),
        ("layer_norm", (f32(3, 4), f32()), {"axes": ()}),
        ("layer_norm", (f32(3, 4), f32()), {"axes": (2,)}),
        ("layer_norm", (f32(3, 4), f32(), f32(3)), {"axes": (1,)}),
        ("rms_norm", (f32(3, 4), f32(), f32(2, 3, 4)), {"axes": (1,)}),
        ("group_norm", (f32(3, 4), f32()), {"groups": 3}),
        ("group_norm", (f32(3, 4), f32(), f32(3)), {"groups": 2}),
        ("batch_norm", (f32(3, 4), f32(), f32(3), f32(4)), {"axis": 1}),
        ("batch_norm", (f32(3, 4), f32(), f32(4), f32(4)), {"axis": 2}),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, specs: tuple[TensorSpec, ...], attributes: Attributes
) -> None:
    with pytest.raises(GraphError) as raised:
        get(name).infer(specs, attributes)
    assert name in str(raised.value)
