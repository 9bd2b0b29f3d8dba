"""Writing formula trees as arithmetic: terms with Python's operators.

Owns: the notation. Must not: know what an expression is for. Numbers beside a term become constants
of its dtype; nothing is promoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["Emitter", "Number", "Term", "horner", "select", "term"]


class Emitter(Protocol):
    """As much of `FormulaBuilder` as terms need."""

    floating: str

    def const(self, dtype: str, value: float | int | bool) -> int: ...

    def cast(self, operand: int, dtype: str) -> int: ...

    def call(self, function: str, *operands: int) -> int: ...


Number: TypeAlias = "Term | float | int"

_TESTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit"})


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One node of a formula that is being built, and its dtype."""

    emitter: Emitter
    node: int
    dtype: str

    def const(self, value: float | int) -> Term:
        """A constant of this term's dtype."""
        return Term(self.emitter, self.emitter.const(self.dtype, value), self.dtype)

    def call(self, function: str, *others: Number) -> Term:
        """A scalar function with this term as its first operand."""
        operands = [self.node, *(self._node(other) for other in others)]
        dtype = "bool" if function in _TESTS else self.dtype
        return Term(self.emitter, self.emitter.call(function, *operands), dtype)

    def cast(self, dtype: str) -> Term:
        if dtype == self.dtype:
            return self
        return Term(self.emitter, self.emitter.cast(self.node, dtype), dtype)

    def bits(self) -> Term:
        """The bit pattern of a float32 as int32."""
        return Term(self.emitter, self.emitter.call("float_bits", self.node), "int32")

    def from_bits(self) -> Term:
        """The float32 of a bit pattern."""
        return Term(self.emitter, self.emitter.call("bits_float", self.node), "float32")

    def _node(self, other: Number) -> int:
        return other.node if isinstance(other, Term) else self.const(other).node

    def __add__(self, other: Number) -> Term:
        return self.call("add", other)

    def __radd__(self, other: float) -> Term:
        return self.const(other).call("add", self)

    def __sub__(self, other: Number) -> Term:
        return self.call("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.const(other).call("sub", self)

    def __mul__(self, other: Number) -> Term:
        return self.call("mul", other)

    def __rmul__(self, other: float) -> Term:
        return self.const(other).call("mul", self)

    def __truediv__(self, other: Number) -> Term:
        return self.call("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.const(other).call("div", self)

    def __neg__(self) -> Term:
        return self.call("neg")

    def __abs__(self) -> Term:
        return self.call("abs")

    def __and__(self, other: Number) -> Term:
        return self.call("and", other)

    def __or__(self, other: Number) -> Term:
        return self.call("or", other)

    def __xor__(self, other: Number) -> Term:
        return self.call("xor", other)

    def __lshift__(self, other: Number) -> Term:
        return self.call("shl", other)

    def __rshift__(self, other: Number) -> Term:
        return self.call("shr", other)

    def __lt__(self, other: Number) -> Term:
        return self.call("lt", other)

    def __le__(self, other: Number) -> Term:
        return self.call("le", other)

    def __gt__(self, other: Number) -> Term:
        return self.call("gt", other)

    def __ge__(self, other: Number) -> Term:
        return self.call("ge", other)

    def equals(self, other: Number) -> Term:
        return self.call("eq", other)


def term(emitter: Emitter, node: int, dtype: str = "") -> Term:
    """A node as a term; of the dtype of the emitter's floats where none is given."""
    return Term(emitter, node, dtype or emitter.floating)


def select(condition: Term, first: Number, second: Number) -> Term:
    """`where`; one of the two must be a term."""
    like = first if isinstance(first, Term) else second
    if not isinstance(like, Term):
        raise TypeError("one branch of a choice must be a term")
    chosen = [like._node(branch) for branch in (first, second)]
    node = like.emitter.call("where", condition.node, *chosen)
    return Term(like.emitter, node, like.dtype)


def horner(at: Term, coefficients: Sequence[float]) -> Term:
    """A polynomial, highest power first: a multiplication and an addition a step, each rounded."""
    value = at.const(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * at + coefficient
    return value
