from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.errors import PlanError
from gpugoblin.plan.order import Order, permutation


def test_an_epoch_reads_every_example_once() -> None:
    order = Order(22, 5, seed=9)
    assert order.steps_per_epoch == 4
    read = [row for step in range(4) for row in order.rows(step, 0, 5)]
    assert len(set(read)) == 20
    assert set(read) <= set(range(22))


def test_parts_of_a_batch_are_the_batch() -> None:
    order = Order(64, 8, seed=1)
    parts = order.rows(11, 0, 3) + order.rows(11, 3, 5)
    assert parts == order.rows(11, 0, 8)


def test_epochs_and_seeds_differ_and_stay_the_same() -> None:
    first = permutation(100, 1, 0)
    assert sorted(first) == list(range(100))
    assert not np.array_equal(first, permutation(100, 1, 1))
    assert not np.array_equal(first, permutation(100, 2, 0))
    permutation.cache_clear()
    assert np.array_equal(first, permutation(100, 1, 0))
    # A run that is resumed with another NumPy must read the same examples.
    assert permutation(8, 42, 3).tolist() == [1, 6, 3, 4, 5, 2, 0, 7]


def test_without_shuffling_it_reads_from_the_front() -> None:
    order = Order(10, 4, shuffle=False)
    assert [order.rows(step, 0, 4) for step in range(3)] == [
        (0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3),
    ]  # fmt: skip


def test_a_batch_that_the_data_cannot_fill() -> None:
    with pytest.raises(PlanError) as caught:
        Order(3, 4)
    assert caught.value.code == "data_too_short"
