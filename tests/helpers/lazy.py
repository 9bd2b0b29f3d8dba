"""Numbers of lazy arrays without a node: by the reference interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.graph.interpret import interpret

__all__ = ["agree", "compute"]


def compute(array: gg.Array) -> np.ndarray[Any, Any]:
    """What the array means, by the reference."""
    made = lower([array.value])
    inputs = [s.array for s in made.sources if isinstance(s, MemorySource)]
    return interpret(made.graph, inputs)[0]


def agree(array: gg.Array, expected: Any, absolute: float = 2e-6) -> None:
    """Requires the shape and, within rounding, the numbers of `expected`."""
    found, wanted = compute(array), np.asarray(expected)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=absolute)
