"""Matrices for the samples of linear algebra. Owns: making them, with results that are far from
every edge, so that differences exist."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.samples import Make, normal
from gpugoblin.catalog.spec import Array

__all__ = ["broken", "dominant", "ramp"]


def dominant(*shape: int, scale: float = 0.3) -> Make:
    """Square matrices, symmetric up to noise, with a diagonal that rises from the extent on: well
    conditioned, positive definite, with distinct eigenvalues."""
    plain = normal(*shape, scale=scale)

    def make(generator: np.random.Generator) -> Array:
        rise = np.diag(shape[-1] + np.arange(shape[-1]))
        return np.asarray(plain(generator) + rise, np.float32)

    return make


def ramp(*shape: int) -> Make:
    """Matrices whose singular values are distinct and far from 0."""
    plain = normal(*shape, scale=0.3)

    def make(generator: np.random.Generator) -> Array:
        rise = np.eye(shape[-2], shape[-1]) * (1.5 + np.arange(shape[-1]))
        return np.asarray(plain(generator) + rise, np.float32)

    return make


def broken(make: Make) -> Make:
    """A batch whose first matrix has a NaN beside the diagonal, and whose second an infinity."""

    def spoil(generator: np.random.Generator) -> Array:
        array = make(generator)
        array[0, 1, 0], array[1, 0, 1] = np.nan, np.inf
        return array

    return spoil
