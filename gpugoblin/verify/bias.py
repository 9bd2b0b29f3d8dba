"""Errors of one direction: what a device may not do with its tolerance, task after task.

Owns: the measure of a device's mean signed error, and from when on it is too large. Must not: draw
the secret, or keep anything.

A tolerance bounds each element of each result (`spread`). Honest roundings have no common sign from
task to task, so they cancel in a sum; a liar who moves every result the same way within the
tolerance adds up. Nobody knows the liar's direction, and it need not be known: with secret signs r,
the projection of one error e of n elements, in units of what is allowed,

    p = r . e / sqrt(n),

has the mean square |e|^2 / n over the signs (the lemma of W. Johnson and J. Lindenstrauss, 1984,
with the signs of D. Achlioptas, 2003). So the mean of p over a device's tasks shrinks as the root
of their number where errors are independent, and stays where they are one and the same. Several
projections at once tell its size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.spec import Array
from gpugoblin.hashing import JOB, digest
from gpugoblin.verify.spread import LARGEST, Tolerance, shares_of, usable

__all__ = ["DIRECTIONS", "FEWEST", "LIMIT", "Bias", "added", "is_biased", "mean_of", "projected"]

DIRECTIONS: Final = 8
"""Projections of one error: a byte of secret bits for each element."""

FEWEST: Final = 16
"""Results that differ, before anything is said of their device."""

LIMIT: Final = 1 / 16
"""A mean signed error beyond this share of the tolerance (root mean square over elements)."""

WINDOW: Final = 64
"""Older results are forgotten as one in so many: honest ones do not hide what comes after them."""

_PIECE: Final = 1 << 20

Bias = tuple[float, ...]
"""The number of results, their weight, and the weighted sums of their projections; empty: none."""


def projected(
    secret: str, reference: Sequence[Array], found: Sequence[Array], tolerance: Tolerance
) -> tuple[float, ...]:
    """The projections of a result's error on the directions of a secret.

    Args:
        reference: the validator's result. found: another one, with its shapes and dtypes.
        tolerance: what was measured for the graph; empty: the largest that there may be.

    Returns:
        `DIRECTIONS` numbers; what is not finite counts as no error, as it is judged elsewhere.
    """
    sums, count = np.zeros(DIRECTIONS), 0
    limits = usable(tolerance) or ((),) * len(reference)
    for number, (own, other) in enumerate(zip(reference, found, strict=True)):
        shares = shares_of(own, other, limits[number] or (LARGEST,))
        if shares is None:
            continue
        count += shares.size
        key = int(digest(JOB, f"bias {number} {secret}".encode())[:32], 16)
        random = np.random.Generator(np.random.Philox(key=key))
        for start in range(0, shares.size, _PIECE):
            piece = shares[start : start + _PIECE]
            bits = np.unpackbits(np.frombuffer(random.bytes(piece.size), np.uint8))
            sums += piece @ (1.0 - 2.0 * bits.reshape(piece.size, DIRECTIONS))
    return tuple(float(one) for one in sums / math.sqrt(max(1, count)))


def added(known: Bias, projections: Sequence[float]) -> Bias:
    """What is known of a device after one more result."""
    kept = 1.0 - 1.0 / WINDOW
    count, weight, *sums = known or (0.0,) * (2 + DIRECTIONS)
    moved = [kept * old + one for old, one in zip(sums, projections, strict=True)]
    return (count + 1, kept * weight + 1, *moved)


def mean_of(known: Bias) -> float:
    """The size of a device's mean signed error, in shares of the tolerance."""
    if not known:
        return 0.0
    _, weight, *sums = known
    return math.sqrt(sum((one / weight) ** 2 for one in sums) / DIRECTIONS)


def is_biased(known: Bias) -> bool:
    """Whether a device errs in one direction."""
    return bool(known) and known[0] >= FEWEST and mean_of(known) > LIMIT
