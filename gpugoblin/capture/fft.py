"""`gg.fft`: the extension for Fourier transforms of the Python array API standard.

Owns: what of it needs no complex numbers; the rest is refused with that reason. Each function takes
lazy arrays or ndarrays and raises `CaptureError` with the researcher's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gpugoblin.capture import refusals
from gpugoblin.capture.arranging import roll
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import caller
from gpugoblin.capture.shaping import normal_axis

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]

Axes = int | Sequence[int] | None
_REFUSED: Final = {
    name: refusals.refusal(f"fft.{name}", *reason) for name, reason in refusals.FFT.items()
}


def __getattr__(name: str) -> Any:
    if name in _REFUSED:
        return _REFUSED[name]
    raise AttributeError(f"gg.fft has no attribute {name!r}")


def fftfreq(n: int, *, d: float = 1.0) -> Array:
    """The frequencies of a transform of `n` samples at distances of `d`, in cycles per unit."""
    return Array(as_value(np.fft.fftfreq(n, d).astype(np.float32), caller()))


def rfftfreq(n: int, *, d: float = 1.0) -> Array:
    """The frequencies of 0 and more of a transform of `n` real samples."""
    return Array(as_value(np.fft.rfftfreq(n, d).astype(np.float32), caller()))


def fftshift(x: ArrayLike, *, axes: Axes = None) -> Array:
    """The frequency 0 moved to the middle of `axes` (None: of all)."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, *, axes: Axes = None) -> Array:
    """`fftshift` undone."""
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: ArrayLike, axes: Axes, sign: int) -> Array:
    place = caller()
    value = as_value(x, place)
    given = range(value.spec.rank) if axes is None else [axes] if isinstance(axes, int) else axes
    named = tuple(normal_axis(name, value, axis, place) for axis in given)
    shifts = tuple(sign * (value.spec.shape[axis] // 2) for axis in named)
    return roll(Array(value), shifts, axis=named) if named else Array(value)
