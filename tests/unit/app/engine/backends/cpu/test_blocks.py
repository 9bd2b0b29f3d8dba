"""Cutting arrays into boxes."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu.blocks import cut


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (10, 1, 3), (4, 100)])
@pytest.mark.parametrize("limit", [1, 2, 6, 1000])
def test_boxes_cover_every_element_once(shape: tuple[int, ...], limit: int) -> None:
    seen = np.zeros(shape, np.int64)
    for box in cut(shape, limit):
        part = seen[box]
        assert part.size <= limit
        part += 1
    assert (seen == 1).all()


def test_long_runs_of_memory_stay_whole() -> None:
    boxes = cut((100, 64), 640)
    assert len(boxes) == 10
    assert boxes[0][:2] == (slice(0, 10), slice(0, 64))


def test_nothing_has_no_boxes() -> None:
    assert cut((3, 0, 2), 10) == []
