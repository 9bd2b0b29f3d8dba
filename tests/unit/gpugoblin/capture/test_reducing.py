"""Reductions: axes, dtypes, refusals (the numbers are compared in test_lower.py)."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

X = gg.array(np.ones((3, 4), np.float32))
B = X > 0


def test_result_dtypes() -> None:
    assert X.sum().dtype == np.float32
    assert X.astype("int32").sum().dtype == np.int64
    assert X.astype("int32").max().dtype == np.int32
    assert B.sum(axis=0).dtype == np.int64
    assert X.any().dtype == np.bool_
    assert X.argmax(axis=1).dtype == np.int64


def test_shapes() -> None:
    assert X.sum().shape == ()
    assert X.sum(axis=()).shape == (3, 4)
    assert X.sum(axis=(-1, 0), keepdims=True).shape == (1, 1)
    assert X.argmin(keepdims=True).shape == (1, 1)
    assert X.argmin(axis=-1, keepdims=True).shape == (3, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: X.sum(axis=2), lambda: X.sum(axis=(0, 0)), lambda: X.sum(axis=(1, -1)),
        lambda: B.max(), lambda: X.astype("int64").mean(), lambda: gg.zeros((0, 3)).max(axis=0),
        lambda: X.argmax(axis=5), lambda: gg.zeros(0).argmin(),
    ],
)  # fmt: skip
def test_refusals(make: object) -> None:
    assert callable(make)
    with pytest.raises(CaptureError) as caught:
        make()
    assert caught.value.code == "argument_refused"
    assert "test_reducing.py" in caught.value.what
