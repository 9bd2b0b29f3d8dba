"""Positions in several arrays at once, and positions that are outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError, GraphError
from tests.helpers.lazy import agree, compute

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
I = np.array([[0, 2], [1, -1]])  # noqa: E741
INDICES = [
    np.s_[I], np.s_[:, I], np.s_[I, I], np.s_[:, I, I], np.s_[..., I], np.s_[:, 1, I],
    np.s_[None, I, 1], np.s_[::2, None, I, 1:3], np.s_[I, 1, I], np.s_[[0, 2]], np.s_[[0, 1], [1]],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_positions_side_by_side(index: Any) -> None:
    agree(gg.array(X)[index], X[index])


def test_along_an_axis() -> None:
    order = np.argsort(-X, axis=1)[:, :2]
    agree(gg.take_along_axis(X, order, axis=1), np.take_along_axis(X, order, axis=1))
    last = gg.take_along_axis(X, gg.argsort(X, descending=True))
    agree(last, X[..., ::-1])


def test_a_position_outside_is_an_error_and_not_the_next_row() -> None:
    wrong = np.array([4])
    with pytest.raises(GraphError, match="index_out_of_range"):
        compute(gg.array(X)[wrong - 3, wrong])
    with pytest.raises(GraphError, match="index_out_of_range"):
        compute(gg.take_along_axis(X, np.full((3, 1, 5), 4), axis=1))


def test_what_is_refused() -> None:
    x = gg.array(X)
    for index in (x > 1, (I, slice(None), I), np.array([0.5], np.float32)):
        with pytest.raises(CaptureError, match="refused"):
            x[index]
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.take_along_axis(X, np.array([0]))
    with pytest.raises(CaptureError, match="shapes_differ"):
        gg.take_along_axis(X, np.zeros((2, 4, 5), np.int64))
