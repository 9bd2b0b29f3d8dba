"""Products in pieces: the same sums as of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import Array
from gpugoblin.verify.narrow import cut, products


def whole(left: Array, right: Array, step: int) -> Array:
    parts = [
        left[:, first : first + step] @ right[first : first + step]
        for first in range(0, right.shape[0], step)
    ]
    return np.array(parts).reshape(len(parts), left.shape[0], right.shape[1])


@given(
    st.integers(0, 300),
    st.integers(0, 150),
    st.integers(1, 9),
    st.integers(1, 64),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_pieces(
    rows: int, inner: int, vectors: int, step: int, transposed: bool, given_room: bool
) -> None:
    random = np.random.default_rng(rows + inner)
    left = random.integers(-9, 9, (rows, inner)).astype(np.float32)
    if transposed:
        left = np.ascontiguousarray(left.T).T
    right = random.integers(-9, 9, (inner, vectors)).astype(np.float32)
    narrow = cut(right, step)
    room = np.full((narrow.count, rows + 3, vectors), np.nan, np.float32) if given_room else None
    found = products(left, narrow, room)
    np.testing.assert_array_equal(found, whole(left, right, step))


@pytest.mark.parametrize("rows", [1, 96, 97, 3000])
@pytest.mark.parametrize("vectors", [20, 700])
def test_bands_of_rows_end_anywhere(rows: int, vectors: int) -> None:
    random = np.random.default_rng(rows)
    left = random.integers(-9, 9, (rows, 1100)).astype(np.float32)
    right = random.integers(-9, 9, (1100, vectors)).astype(np.float32)
    np.testing.assert_array_equal(products(left, cut(right, 512)), whole(left, right, 512))


def test_contiguous_operands_are_not_copied() -> None:
    right = np.ones((10, 2), np.float32)
    narrow = cut(right, 4)
    assert np.shares_memory(narrow.pieces, right)
    assert narrow.count == 3
