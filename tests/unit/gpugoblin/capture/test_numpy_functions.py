"""NumPy's functions on lazy arrays give what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree

X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.concatenate([x, X], axis=1),
    lambda x: np.stack([x, x]),
    lambda x: np.sum(x, axis=0),
    lambda x: np.mean(x),
    lambda x: np.std(x, axis=1, ddof=1, keepdims=True),
    lambda x: np.var(x),
    lambda x: np.argmax(x, axis=1),
    lambda x: np.transpose(x),
    lambda x: np.swapaxes(x, 0, 1),
    lambda x: np.where(x > 0, x, 0),
    lambda x: np.clip(x, -0.5, 0.5),
    lambda x: np.squeeze(x[:1]),
    lambda x: np.take(x, [2, 0], axis=1),
    lambda x: np.take(x, [2, 0]),
    lambda x: np.diff(x, axis=0),
    lambda x: np.linalg.norm(x),
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.linalg.norm(x, 1),
    lambda x: np.linalg.norm(x, 1, axis=(0, 1)),
    lambda x: np.dot(x, X),
    lambda x: np.dot(x, X[0]),
    lambda x: np.tensordot(x, X, axes=(1, 1)),
    lambda x: np.tensordot(x, X),
    lambda x: np.sort(x, axis=0),
    lambda x: np.argsort(x),
    lambda x: np.cumsum(x, axis=1),
    lambda x: np.flip(x),
    lambda x: np.roll(x, 1, axis=0),
    lambda x: np.tile(x, 2),
    lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.tril(x, -1),
    lambda x: np.triu(x),
    lambda x: np.trace(x),
    lambda x: np.outer(x[0], x[1]),
    lambda x: np.take_along_axis(x, np.argsort(X, axis=0), axis=0),
    lambda x: np.searchsorted(x[0] * 0, X[1]),
    lambda x: np.nan_to_num(np.log(x)),
    lambda x: np.broadcast_to(x, (2, 4, 4)),
    lambda x: np.expand_dims(x, 1),
    lambda x: np.count_nonzero(x > 0, axis=0),
    lambda x: np.zeros_like(x),
    lambda x: np.prod(x, axis=1),
    lambda x: np.any(x > 1),
    lambda x: np.hypot(x, X[0]),
    lambda x: np.square(np.logaddexp(1.0, x)),
    lambda x: np.logical_and(x > 0, X < 1),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_same(number: int) -> None:
    agree(CALLS[number](gg.array(X)), CALLS[number](X), absolute=1e-5)


def test_facts_are_known_at_once() -> None:
    assert (np.shape(gg.array(X)), np.ndim(gg.array(X)), np.size(gg.array(X))) == ((4, 4), 2, 16)


def test_what_has_no_counterpart() -> None:
    with pytest.raises(CaptureError, match=r"numpy\.median needs the numbers"):
        np.median(gg.array(X))  # type: ignore[call-overload]
