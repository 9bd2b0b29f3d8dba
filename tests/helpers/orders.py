"""Honest float32 products with what is carried in, by several orders of summation.

Owns: how devices that round otherwise than NumPy compute `carry + A @ B`, and carries of many
kinds. Must not: judge a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import Array

__all__ = ["CARRIES", "ORDERS", "make_carry"]

_BLOCK: Final = 64


def numpy_order(a: Array, b: Array, carry: Array) -> Array:
    """The product as BLAS sums it, then one addition."""
    summed: Array = a @ b + carry
    return summed


def pairwise(a: Array, b: Array, carry: Array) -> Array:
    """A tree of sums, then one addition."""
    terms = a.T[:, :, None] * b[:, None, :]
    while terms.shape[0] > 1:
        half = terms.shape[0] // 2
        folded = terms[:half] + terms[half : 2 * half]
        terms = np.concatenate((folded, terms[2 * half :]))
    total: Array = terms.sum(axis=0, dtype=np.float32) + carry
    return total


def blocked(a: Array, b: Array, carry: Array) -> Array:
    """Blocks of 64 products, each added to what began as the carry: a matrix unit, a BLAS."""
    out = carry.copy()
    for first in range(0, a.shape[1], _BLOCK):
        out += a[:, first : first + _BLOCK] @ b[first : first + _BLOCK]
    return out


def _one_by_one(a: Array, b: Array, out: Array, *, fused: bool) -> Array:
    term = np.empty(out.shape, np.float64 if fused else np.float32)
    for k in range(a.shape[1]):
        np.multiply(a[:, k : k + 1].astype(term.dtype), b[k].astype(term.dtype), out=term)
        term += out  # of two float32 the product is exact in float64
        out[...] = term
    return out


def sequential(a: Array, b: Array, carry: Array) -> Array:
    """One product after the other, then the carry: the simplest kernel."""
    return _one_by_one(a, b, np.zeros_like(carry), fused=False) + carry


def sequential_from_carry(a: Array, b: Array, carry: Array) -> Array:
    """The same with an accumulator that begins with the carry."""
    return _one_by_one(a, b, carry.copy(), fused=False)


def fused_from_carry(a: Array, b: Array, carry: Array) -> Array:
    """The same with a fused multiply-add: one rounding a term."""
    return _one_by_one(a, b, carry.copy(), fused=True)


ORDERS: Final[dict[str, Callable[[Array, Array, Array], Array]]] = {
    "numpy": numpy_order,
    "pairwise": pairwise,
    "blocked from the carry": blocked,
    "sequential": sequential,
    "sequential from the carry": sequential_from_carry,
    "fused from the carry": fused_from_carry,
}
CARRIES: Final = ("alike", "cancelling", "diagonal", "uneven", "constant")


def make_carry(random: np.random.Generator, kind: str, product: Array, times: float) -> Array:
    """A carry whose size is that of the product, times `times`; `cancelling`: its negative."""
    rms = float(np.sqrt(np.mean(product.astype(np.float64) ** 2)))
    if kind == "cancelling":
        made = -product.astype(np.float64)
    elif kind == "constant":
        made = np.full(product.shape, rms)
    else:
        made = random.standard_normal(product.shape) * rms
    if kind == "diagonal":
        made = made * 1e-3 + np.eye(*product.shape) * rms * product.shape[1] ** 0.5
    elif kind == "uneven":
        made = made * np.exp(2 * random.standard_normal(product.shape[1:]))
    return (made * times).astype(np.float32)
