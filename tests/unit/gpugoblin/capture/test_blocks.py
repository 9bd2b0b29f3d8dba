"""gg.function and gg.map_blocks."""

from __future__ import annotations

import numpy as np
import pytest

import gpugoblin as gg
from gpugoblin.errors import CaptureError

NUMBERS = np.ones((6, 4), np.float32)


def test_a_function_gets_lazy_arrays_and_keeps_its_name() -> None:
    @gg.function
    def scaled(x: gg.Array, factor: float, *, shift: gg.Array) -> tuple[gg.Array, gg.Array]:
        """Scales."""
        assert isinstance(x, gg.Array)
        return x * factor + shift, x

    first, second = scaled(NUMBERS, 2.0, shift=NUMBERS[0])  # type: ignore[arg-type]
    assert first.shape == second.shape == (6, 4)
    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scales.")


@pytest.mark.parametrize("result", [3, None, [NUMBERS], {"a": 1.0}, (gg.array([1]), "x")])
def test_a_function_returns_lazy_arrays(result: object) -> None:
    with pytest.raises(CaptureError) as caught:
        gg.function(lambda: result)()
    assert caught.value.code == "not_an_array"
    assert "test_blocks.py" in caught.value.what


def test_a_function_may_return_a_dictionary() -> None:
    assert set(gg.function(lambda x: {"a": x, "b": [x, x]})(NUMBERS)) == {"a", "b"}


def test_map_blocks_remembers_its_axis() -> None:
    result = gg.map_blocks(lambda x: gg.softmax(x) @ np.ones((4, 2), np.float32), NUMBERS)
    assert (result.shape, result.block_axis) == ((6, 2), 0)
    assert gg.map_blocks(lambda x: x + 1, NUMBERS, axis=-1).block_axis == 1
    assert (result + 1).block_axis is None


@pytest.mark.parametrize(
    "f", [lambda x: x.sum(axis=0), lambda x: x.sum(), lambda x: gg.concat([x, x])]
)
def test_map_blocks_keeps_the_axis_that_it_cuts(f: object) -> None:
    assert callable(f)
    with pytest.raises(CaptureError, match="without axis 0 of extent 6"):
        gg.map_blocks(f, NUMBERS)


def test_map_blocks_needs_a_lazy_result_and_an_axis() -> None:
    with pytest.raises(CaptureError, match="not_an_array"):
        gg.map_blocks(lambda x: NUMBERS, NUMBERS)  # type: ignore[arg-type,return-value]
    with pytest.raises(CaptureError, match="not_an_array"):
        gg.map_blocks(lambda x: (x, x), NUMBERS)  # type: ignore[arg-type,return-value]
    with pytest.raises(CaptureError, match="there is no axis 2"):
        gg.map_blocks(lambda x: x, NUMBERS, axis=2)
