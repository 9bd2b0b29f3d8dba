"""Copies and views of operators that only move elements."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cpu import movement
from app.engine.context import Context
from app.engine.pool import Pool
from gpugoblin.catalog.spec import Attributes

CASES: list[tuple[str, Attributes]] = [
    ("permute", {"axes": (1, 0)}),
    ("slice_", {"start": (3, 1), "stop": (900, 700), "step": (2, 3)}),
    ("broadcast", {"shape": (2, 1000, 700)}),
    ("reshape", {"shape": (700, 1000)}),
]


@pytest.mark.parametrize(("name", "attributes"), CASES)
def test_a_copy_is_what_the_view_shows(name: str, attributes: Attributes, pool: Pool) -> None:
    source = np.arange(700_000, dtype=np.int32).reshape(1000, 700)
    view = getattr(movement, f"{name.rstrip('_')}_view")(source, attributes)
    assert np.shares_memory(view, source)
    out = np.full(view.shape, -1, np.int32)
    getattr(movement, name)([source], [out], attributes, Context(pool))
    np.testing.assert_array_equal(out, view)


def test_a_reshape_that_would_copy_is_no_view() -> None:
    source = np.zeros((4, 6), np.float32).T
    with pytest.raises(ValueError, match="copy"):
        movement.reshape_view(source, {"shape": (24,)})


@pytest.mark.parametrize("axis", [0, 1])
def test_concat(axis: int, pool: Pool) -> None:
    parts = [np.full((600, 600), number, np.float32) for number in range(3)]
    parts.append(np.empty((0, 600) if axis == 0 else (600, 0), np.float32))
    expected = np.concatenate(parts, axis)
    out = np.empty_like(expected)
    movement.concat(parts, [out], {"axis": axis}, Context(pool))
    np.testing.assert_array_equal(out, expected)


def test_scalars_and_nothing(pool: Pool) -> None:
    out = np.zeros((), np.float32)
    movement.copy_into(np.float32(3) * np.ones((), np.float32).reshape(()), out, Context(pool))
    assert out == 3
    movement.copy_into(np.empty((0, 3)), np.empty((0, 3)), Context(pool))
