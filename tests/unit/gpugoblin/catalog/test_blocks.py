from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.catalog.blocks import BLOCK_ELEMENTS, blocks


@given(shape=st.lists(st.integers(0, 7), max_size=4).map(tuple), limit=st.integers(1, 60))
def test_boxes_cover_each_element_once_and_are_small(shape: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(shape, np.int32)
    for box in blocks(shape, limit):
        assert 1 <= seen[box].size <= limit
        seen[box] += 1
    assert (seen == 1).all()


def test_boxes_are_whole_rows_where_they_fit() -> None:
    assert list(blocks((5, 10), 25)) == [
        (slice(0, 2), slice(0, 10)),
        (slice(2, 4), slice(0, 10)),
        (slice(4, 5), slice(0, 10)),
    ]


@pytest.mark.parametrize("shape", [(), (1,), (BLOCK_ELEMENTS,)])
def test_small_arrays_are_one_box(shape: tuple[int, ...]) -> None:
    assert len(list(blocks(shape))) == 1
