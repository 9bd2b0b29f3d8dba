"""Arrays for the operators' samples, made from a generator: also empty and strided ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gpugoblin.catalog.spec import DTYPES, Array, Attributes, Sample

__all__ = [
    "Make",
    "ints",
    "normal",
    "positive",
    "sample",
    "share",
    "special",
    "strided",
    "truth",
]

Make: TypeAlias = "Callable[[np.random.Generator], Array]"
"""Text, so that importing the catalog does not import numpy.random (12 ms of an engine's start)."""


def sample(name: str, *makes: Make, **attributes: object) -> Sample:
    """A sample whose inputs are made in order."""
    checked: Attributes = attributes  # type: ignore[assignment]
    return Sample(name, lambda generator: [make(generator) for make in makes], checked)


def normal(*shape: int, scale: float = 1.0) -> Make:
    """float32, normally distributed."""
    return lambda generator: (generator.standard_normal(shape) * scale).astype(np.float32)


def positive(*shape: int) -> Make:
    """float32 from 0.5 to 1.5."""
    return lambda generator: np.asarray(generator.uniform(0.5, 1.5, shape), np.float32)


def share(*shape: int) -> Make:
    """float32 from 0.1 to 0.9."""
    return lambda generator: np.asarray(generator.uniform(0.1, 0.9, shape), np.float32)


def ints(*shape: int, dtype: str = "int32", low: int = -9, high: int = 9) -> Make:
    """Integers from `low` to `high` included."""
    return lambda generator: generator.integers(low, high, shape, DTYPES[dtype], endpoint=True)


def truth(*shape: int) -> Make:
    """bool, both equally likely."""
    return lambda generator: generator.integers(0, 1, shape, np.int8, endpoint=True) != 0


def special(*shape: int, values: Sequence[float] = (np.nan, np.inf, -np.inf, 0.0, -0.0)) -> Make:
    """float32, normally distributed, with `values` sown in (the shape must have room for them)."""

    def make(generator: np.random.Generator) -> Array:
        array = generator.standard_normal(shape).astype(np.float32)
        places = generator.permutation(array.size)[: len(values)]
        array.flat[places] = values
        return array

    return make


def strided(make: Make) -> Make:
    """The same numbers in memory that is not contiguous."""

    def spread(generator: np.random.Generator) -> Array:
        array = make(generator)
        room = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
        view = room[..., 1::2]
        view[...] = array
        return view

    return spread
