"""Fourier transforms. Owns: those ATen operators, and torch's numbers for normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from gpugoblin.capture.torch.context import Context, normal_axis
from gpugoblin.capture.torch.families.complexes import as_pair, complex_of, view_as_real
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Pair, Value

__all__: list[str] = []

_FORWARD: Final = ("backward", "ortho", "forward")
_INVERSE: Final = ("forward", "ortho", "backward")
"""By torch's number (0: not scaled, 1: by the root, 2: by n), which way of the pair is scaled."""


def _transform(
    c: Context,
    x: Value,
    dims: Sequence[int],
    rank: int,
    kind: Literal["c2c", "r2c", "c2r"],
    norm: str,
    inverse: bool = False,
    length: int = 0,
) -> Value:
    axes = tuple(normal_axis(axis, rank) for axis in dims)
    return c.op("fft", [x], axes=axes, kind=kind, norm=norm, inverse=inverse, length=length)


@aten("_fft_r2c")
def fft_r2c(c: Context, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    if not onesided:
        return fft_c2c(c, as_pair(c, x), dim, normalization, True)
    rank = len(c.shape(x))
    found = _transform(c, x, dim, rank, "r2c", _FORWARD[normalization])
    return complex_of(c, found)


@aten("_fft_c2r")
def fft_c2r(
    c: Context, x: Pair, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Value:
    rank, norm = len(c.shape(x.real)), _INVERSE[normalization]
    inside = view_as_real(c, x)
    return _transform(c, inside, dim, rank, "c2r", norm, inverse=True, length=last_dim_size)


@aten("_fft_c2c")
def fft_c2c(c: Context, x: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    rank = len(c.shape(x.real))
    found = _transform(c, view_as_real(c, x), dim, rank, "c2c", norm, inverse=not forward)
    return complex_of(c, found)
