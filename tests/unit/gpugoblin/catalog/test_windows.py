from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.windows import Window, dilated, padded, read_window, shifts
from gpugoblin.errors import GraphError


def test_extents() -> None:
    assert [dilated(n, 2) for n in (0, 1, 2, 3)] == [0, 1, 4, 7]
    window = Window(3, 2, 2, 1, 1)
    assert window.reach == 5
    assert [window.output(n) for n in (0, 2, 3, 5)] == [0, 0, 1, 2]


@pytest.mark.parametrize("low", [-4, -1, 0, 2])
@pytest.mark.parametrize("high", [-3, 0, 1])
@pytest.mark.parametrize("between", [0, 1, 2])
def test_padding_and_cutting(low: int, high: int, between: int) -> None:
    array = np.arange(1.0, 5.0)
    spread = np.zeros(dilated(4, between))
    spread[:: between + 1] = array
    full = np.concatenate([np.zeros(max(0, low)), spread, np.zeros(max(0, high))])
    expected = full[max(0, -low) : len(full) - max(0, -high)]
    found = padded(array, [Window(1, 1, 1, low, high, between)], 0.0)
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_left_when_more_is_cut_than_there_is() -> None:
    assert padded(np.ones(3), [Window(1, 1, 1, -2, -2)], 0.0).shape == (0,)


def test_shifts_are_the_elements_of_the_windows() -> None:
    array = np.arange(20.0).reshape(4, 5)
    windows = [Window(2, 1, 2, 0, 0), Window(2, 3, 1, 0, 0)]
    found = {place: part.copy() for place, part in shifts(array, windows, (2, 2))}
    assert len(found) == 4
    np.testing.assert_array_equal(found[1, 1], [[11.0, 14.0], [16.0, 19.0]])


@pytest.mark.parametrize(
    "changed", [{"stride": (0,)}, {"dilation": (0,)}, {"low": ()}, {"high": (2**40,)}]
)
def test_what_makes_no_window_is_refused(changed: dict[str, tuple[int, ...]]) -> None:
    given = {"stride": (1,), "dilation": (1,), "low": (0,), "high": (0,), **changed}
    with pytest.raises(GraphError, match="attribute_invalid"):
        read_window("pool", given, (2,))
    with pytest.raises(GraphError, match="attribute_invalid"):
        read_window("pool", {**given, "stride": (1,), "low": (0,)}, (0,))
