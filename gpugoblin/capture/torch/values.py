"""What stands for a tensor while a traced program is lowered. Owns: those two shapes of data."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Lowered", "Pair", "Scalar", "Value"]

Scalar = bool | int | float


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph that is being built, by the builder's number."""

    number: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex tensor: the catalog has complex numbers as pairs of reals."""

    real: Value
    imag: Value


Lowered = Value | Pair
