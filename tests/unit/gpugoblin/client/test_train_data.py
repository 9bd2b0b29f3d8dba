from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.capture.caller import NOWHERE
from gpugoblin.client.train_data import data_set
from gpugoblin.errors import GoblinError


def test_arrays_of_one_length() -> None:
    x, y = np.ones((5, 2), np.float32), np.arange(5)
    found = data_set((x, y), NOWHERE)
    assert found.examples == 5
    assert [str(spec) for spec in found.specs] == ["float32[5, 2]", "int64[5]"]
    first = found.first(2, lambda source: pytest.fail("it is in memory"))
    assert np.array_equal(first[1], [0, 1])
    assert data_set(x, NOWHERE).names == ("data",)


def test_columns_in_any_order_are_sent_as_rows() -> None:
    found = data_set(np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2)), NOWHERE)
    (first,) = found.first(2, lambda source: pytest.fail("it is in memory"))
    assert first.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "no arrays"),
        ((np.ones(3, np.float32), np.ones(4, np.float32)), "data[1] has 4"),
        (np.float32(1.0), "axis of examples"),
        (gg.array(np.ones(3, np.float32)) * 2, "not been computed"),
    ],
)
def test_what_is_no_data(given: Any, words: str) -> None:
    with pytest.raises(GoblinError) as caught:
        data_set(given, NOWHERE)
    assert caught.value.code == "data_malformed"
    assert words in caught.value.what


def test_the_example_that_is_not_finite_is_named() -> None:
    x = np.zeros((100, 3), np.float32)
    x[41, 1] = np.inf
    with pytest.raises(GoblinError) as caught:
        data_set((x, np.zeros(100, np.int64)), NOWHERE)
    assert caught.value.code == "data_not_finite"
    assert "data[0]" in caught.value.what
    assert "41" in caught.value.what
