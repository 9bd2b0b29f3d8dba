"""Moving elements: shapes, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

X = gg.array(np.ones((3, 4), np.float32))


def test_reshape_fills_in_one_extent() -> None:
    assert X.reshape(2, -1).shape == (2, 6)
    assert X.reshape((6, 2)).shape == (6, 2)
    assert gg.zeros((0, 3)).reshape(0, 7).shape == (0, 7)
    assert X.reshape(3, 4).value is X.value
    assert X.ravel().shape == (12,)


@pytest.mark.parametrize("shape", [(5, -1), (-1, -1), (11,), (-2, 6), (0, -1)])
def test_reshape_refuses(shape: tuple[int, ...]) -> None:
    with pytest.raises(CaptureError) as caught:
        gg.reshape(X, shape)
    assert caught.value.code == "argument_refused"


def test_axes_are_counted_from_both_ends() -> None:
    assert gg.permute_dims(X, (-1, 0)).shape == (4, 3)
    assert X.T.T.value is not X.value
    assert X.transpose(0, 1).value is X.value
    assert gg.expand_dims(X, -1).shape == (3, 4, 1)
    assert gg.squeeze(X[None], 0).shape == (3, 4)
    assert gg.matrix_transpose(X).shape == (4, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: X.permute(0, 0), lambda: X.permute(0), lambda: X.permute(0, 2),
        lambda: gg.squeeze(X, 0), lambda: gg.expand_dims(X, 4), lambda: X[0].mT,
        lambda: gg.broadcast_to(X, (3, 5)), lambda: gg.concat([]), lambda: gg.full((-1,), 0.0),
    ],
)  # fmt: skip
def test_wrong_axes_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(CaptureError, match=r"test_shaping.py:\d+"):
        make()


def test_more_arrays_than_one_concat_takes_are_joined_in_rounds() -> None:
    many = gg.concat([gg.array(np.full((1, 2), number, np.int32)) for number in range(150)])
    assert many.shape == (150, 2)


def test_concat_agrees_on_dtype_and_shape() -> None:
    assert gg.concat([gg.array(np.ones(2, np.int32)), gg.array(np.ones(2, np.int64))]).dtype == int
    assert gg.concat([X, X[0]], axis=None).shape == (16,)
    with pytest.raises(CaptureError, match="all axes but axis 0 must agree"):
        gg.concat([X, X[:, :2]])
    with pytest.raises(CaptureError, match="not all the same"):
        gg.stack([X, X[:1]])
    with pytest.raises(CaptureError, match="do not combine"):
        gg.concat([X, X.astype("int32")])
