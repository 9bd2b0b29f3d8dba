"""What the card that kernels are being written for promises.

Owns: the promise, and for whom kernels are written now. A kernel is written for the least of cards
where nobody says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

__all__ = ["LEAST", "Target", "target", "written_for"]


@dataclass(frozen=True, slots=True)
class Target:
    """Args:
    divides: quotients and square roots of float32 are rounded correctly, for all operands, and
        comparisons see numbers below 2^-126.
    ordered: class `exact` is wanted: sums in the catalog's order, nothing contracted.
    """

    divides: bool = False
    ordered: bool = False


LEAST: Final = Target()

_now: ContextVar[Target] = ContextVar("target", default=LEAST)


def target() -> Target:
    """For what kernels are written now."""
    return _now.get()


@contextmanager
def written_for(card: Target) -> Iterator[None]:
    """Kernels that are made inside are for this card."""
    before = _now.set(card)
    try:
        yield
    finally:
        _now.reset(before)
