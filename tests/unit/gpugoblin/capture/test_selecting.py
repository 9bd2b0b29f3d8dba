"""take and topk: positions that are known here are checked here."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.errors import CaptureError

X = gg.array(np.arange(12, dtype=np.float32).reshape(3, 4))


def test_few_positions_become_part_of_the_graph() -> None:
    made = lower([gg.take(X, [2, -1, 0], axis=0).value])
    assert [constant.array().tolist() for constant in made.graph.constants] == [[2, 2, 0]]
    assert len(made.sources) == 1


def test_many_positions_travel_as_an_input() -> None:
    many = np.zeros(100_000, np.int64)
    many[5] = -1
    made = lower([gg.take(X, many, axis=1).value])
    assert made.graph.constants == ()
    assert len(made.sources) == 2


def test_positions_may_have_any_shape() -> None:
    assert X.take(np.zeros((2, 5), np.int32), axis=1).shape == (3, 2, 5)


@pytest.mark.parametrize("positions", [[0, 3], [-4], np.array([10**12])])
def test_positions_outside_are_refused(positions: object) -> None:
    with pytest.raises(CaptureError, match="outside axis 0"):
        gg.take(X, positions, axis=0)  # type: ignore[arg-type]


def test_lazy_positions_are_taken_as_they_are() -> None:
    assert gg.take(X, X.argmax(axis=1), axis=1).shape == (3, 3)


def test_positions_are_integers() -> None:
    with pytest.raises(CaptureError, match="int32 or int64"):
        gg.take(X, X[0], axis=0)


def test_topk() -> None:
    values, positions = gg.topk(X, 2, axis=0, largest=False)
    assert (values.shape, values.dtype) == ((2, 4), np.float32)
    assert (positions.shape, positions.dtype) == ((2, 4), np.int64)
    for wrong in (0, 5):
        with pytest.raises(CaptureError, match="topk of float32"):
            gg.topk(X, wrong)
