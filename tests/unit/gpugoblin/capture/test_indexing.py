"""Indexing: NumPy's shapes (random ones in test_lower.py), and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

X = gg.array(np.ones((3, 4, 5), np.float32))


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (0, (4, 5)), (-1, (4, 5)), ((0, 1, 2), ()), (slice(1, None), (2, 4, 5)),
        ((..., 0), (3, 4)), ((None, ...), (1, 3, 4, 5)), ((slice(None, None, 2),), (2, 4, 5)),
        ((0, None, ..., None, 4), (1, 4, 1)), ((slice(5, 1),), (0, 4, 5)), (np.int64(2), (4, 5)),
        ((), (3, 4, 5)), (slice(-2, 100), (2, 4, 5)), (slice(None, None, -2), (2, 4, 5)),
        (slice(1, 2, -1), (0, 4, 5)), ([0, 2, 1, 0], (4, 4, 5)),
    ],
)  # fmt: skip
def test_shapes(index: object, shape: tuple[int, ...]) -> None:
    assert X[index].shape == shape  # type: ignore[index]


def test_a_whole_slice_is_the_same_value() -> None:
    assert X[:, ..., :].value is X.value


@pytest.mark.parametrize(
    ("index", "hint"),
    [
        (X > 0, "gg.where"), (True, "gg.take"), (([0], ..., [1]), "moveaxis"),
        (1.5, "gg.take"), ("a", "gg.take"), ((..., ...), "once"), ((0, 0, 0, 0), "3 axes"),
        (3, "-3 to 2"), ((0, -5), "-4 to 3"), 
        (slice(None, None, 0), "integers"), (slice("a", None), "integers"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(index: object, hint: str) -> None:
    with pytest.raises(CaptureError) as caught:
        X[index]  # type: ignore[index]
    assert caught.value.code == "index_refused"
    assert hint in caught.value.next_step
    assert "float32[3, 4, 5]" in caught.value.what
