"""Boxes of an array: from an index, cut into requests, put together again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.client import regions
from gpugoblin.client.regions import boxes, read_box, resolve
from gpugoblin.errors import ClientError

NUMBERS = np.arange(2 * 3 * 5, dtype=np.int32).reshape(2, 3, 5)


def fetch_from(array: Any, asked: list[int] | None = None) -> regions.Fetch:
    def fetch(start: tuple[int, ...], stop: tuple[int, ...], into: memoryview) -> None:
        part = np.ascontiguousarray(array[tuple(map(slice, start, stop))])
        assert len(into) == part.nbytes
        into[:] = part.tobytes()
        if asked is not None:
            asked.append(part.nbytes)

    return fetch


indices = st.tuples(
    *(
        st.one_of(
            st.integers(-n, n - 1),
            st.builds(slice, st.none() | st.integers(-7, 7), st.none() | st.integers(-7, 7),
                      st.none() | st.integers(1, 3)),
        )
        for n in NUMBERS.shape
    )
)  # fmt: skip


@given(indices, st.integers(0, 3), st.booleans())
def test_reading_by_index_is_numpys(index: tuple[Any, ...], kept: int, dots: bool) -> None:
    short: tuple[Any, ...] = index[:kept]
    if dots:
        short = (*short, ...)
    box, inner = resolve(NUMBERS.shape, short)
    result = read_box(box, NUMBERS.dtype, fetch_from(NUMBERS))[inner]
    np.testing.assert_array_equal(result, NUMBERS[short])


@given(st.lists(st.integers(0, 5), max_size=4), st.integers(1, 200), st.sampled_from([1, 4, 8]))
def test_pieces_tile_the_box_in_order(shape: list[int], limit: int, itemsize: int) -> None:
    cover = np.zeros(shape, int)
    flat = np.arange(math.prod(shape)).reshape(shape)
    last_seen = -1
    for start, stop in boxes(((0,) * len(shape), tuple(shape)), itemsize, limit):
        place = tuple(map(slice, start, stop))
        cover[place] += 1
        piece = flat[place]
        assert piece.size * itemsize <= max(limit, itemsize)
        assert piece.ravel()[0] == last_seen + 1
        last_seen = int(piece.ravel()[-1])
    assert (cover == 1).all()


def test_a_large_box_is_fetched_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "PIECE_BYTES", 40)
    asked: list[int] = []
    box, _ = resolve(NUMBERS.shape, ...)
    result = read_box(box, NUMBERS.dtype, fetch_from(NUMBERS, asked))
    np.testing.assert_array_equal(result, NUMBERS)
    assert max(asked) <= 40
    assert sum(asked) == NUMBERS.nbytes


def test_a_scalar_is_one_request() -> None:
    box, inner = resolve((), ())
    for number in (2.5, -7.25):
        numbers = np.float32(number).reshape(())
        assert read_box(box, np.dtype("f4"), fetch_from(numbers))[inner] == number


@pytest.mark.parametrize(
    "index", [5, (0, 0, 0, 0), None, "a", 1.5, True, (..., ...), slice(None, None, -1), slice("a")]
)
def test_indices_that_do_not_fit(index: object) -> None:
    with pytest.raises(ClientError) as caught:
        resolve(NUMBERS.shape, index)
    assert caught.value.code == "region_malformed"
