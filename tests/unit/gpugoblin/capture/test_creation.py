"""Arrays from nothing."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.errors import CaptureError
from tests.helpers.lazy import agree, compute

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_filled() -> None:
    np.testing.assert_array_equal(compute(gg.zeros((2, 3))), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(compute(gg.ones(3, dtype="bool")), np.ones(3, bool))
    np.testing.assert_array_equal(compute(gg.full((), 2.5)), np.float32(2.5))
    assert gg.full(2, 3).dtype == np.int64
    assert gg.full(2, True).dtype == np.bool_
    assert gg.empty((0, 2)).shape == (0, 2)
    for like, expected in ((gg.zeros_like, 0), (gg.ones_like, 1), (gg.empty_like, 0)):
        np.testing.assert_array_equal(compute(like(X)), np.full_like(X, expected))
        assert like(X, dtype="int32").dtype == np.int32
    agree(gg.full_like(X, 7), np.full_like(X, 7))
    with pytest.raises(CaptureError, match="shapes_differ"):
        gg.zeros((2, -1))


@pytest.mark.parametrize(
    "arguments", [(5,), (2, 7), (1, 10, 3), (9, 2, -2), (0.5, 2.0, 0.5), (5, 1), (0,)]
)
def test_arange(arguments: tuple[float, ...]) -> None:
    result = compute(gg.arange(*arguments))
    expected = np.arange(*arguments)
    np.testing.assert_allclose(result, expected)
    assert result.dtype == (np.float32 if expected.dtype.kind == "f" else np.int64)


def test_integers_are_counted_where_they_are_used_and_many_floats_are_an_input() -> None:
    assert lower([gg.arange(100_000).value]).sources == ()
    assert len(lower([gg.arange(0.0, 100_000.0).value]).sources) == 1


def test_linspace() -> None:
    agree(gg.linspace(0, 1, 7), np.linspace(0, 1, 7))
    agree(gg.linspace(0, 1, 7, endpoint=False), np.linspace(0, 1, 7, endpoint=False))
    assert gg.linspace(0, 1, 0).shape == (0,)
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.linspace(0, 1, -1)


def test_matrices() -> None:
    agree(gg.eye(3, 4, k=1), np.eye(3, 4, 1))
    agree(gg.eye(2, dtype="int32"), np.eye(2, dtype=np.int32))
    for k in (-2, 0, 1, 5):
        agree(gg.tril(X, k=k), np.tril(X, k))
        agree(gg.triu(X, k=k), np.triu(X, k))
    agree(gg.triu(X > 3), np.triu(X > 3))
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.tril(X[0])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing: str) -> None:
    lines = [np.arange(3), np.arange(4), np.arange(2)]
    wanted = np.meshgrid(*lines, indexing=indexing)  # type: ignore[call-overload]
    for found, expected in zip(gg.meshgrid(*lines, indexing=indexing), wanted, strict=True):
        agree(found, expected)
    with pytest.raises(CaptureError, match="argument_refused"):
        gg.meshgrid(X)


def test_asarray() -> None:
    assert gg.asarray(2.5).shape == ()
    assert gg.asarray(X, dtype="int64").dtype == np.int64
