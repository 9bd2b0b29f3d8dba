"""Python's operators on lazy arrays: which scalar function each of them is.

Owns: that table, as methods. Must not: know how an expression is made; `Array` says so.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

__all__ = ["Operators"]

Operand = Any
"""What stands beside an array: another one, numbers in memory, or a Python number."""


class Operators:
    """The arithmetic, bitwise and comparing operators, each elementwise."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == is elementwise

    @abstractmethod
    def _binary(self, name: str, other: object, *, swapped: bool = False) -> Self:
        """Scalar function `name` of this array and `other`, or of `other` and this one."""

    @abstractmethod
    def _unary(self, name: str) -> Self:
        """Scalar function `name` of this array."""

    def __add__(self, other: Operand) -> Self:
        return self._binary("add", other)

    def __radd__(self, other: Operand) -> Self:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Operand) -> Self:
        return self._binary("sub", other)

    def __rsub__(self, other: Operand) -> Self:
        return self._binary("sub", other, swapped=True)

    def __mul__(self, other: Operand) -> Self:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Self:
        return self._binary("mul", other, swapped=True)

    def __truediv__(self, other: Operand) -> Self:
        return self._binary("div", other)

    def __rtruediv__(self, other: Operand) -> Self:
        return self._binary("div", other, swapped=True)

    def __floordiv__(self, other: Operand) -> Self:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Operand) -> Self:
        return self._binary("floordiv", other, swapped=True)

    def __mod__(self, other: Operand) -> Self:
        return self._binary("mod", other)

    def __rmod__(self, other: Operand) -> Self:
        return self._binary("mod", other, swapped=True)

    def __pow__(self, other: Operand) -> Self:
        return self._binary("pow", other)

    def __rpow__(self, other: Operand) -> Self:
        return self._binary("pow", other, swapped=True)

    def __and__(self, other: Operand) -> Self:
        return self._binary("and", other)

    def __rand__(self, other: Operand) -> Self:
        return self._binary("and", other, swapped=True)

    def __or__(self, other: Operand) -> Self:
        return self._binary("or", other)

    def __ror__(self, other: Operand) -> Self:
        return self._binary("or", other, swapped=True)

    def __xor__(self, other: Operand) -> Self:
        return self._binary("xor", other)

    def __rxor__(self, other: Operand) -> Self:
        return self._binary("xor", other, swapped=True)

    def __lshift__(self, other: Operand) -> Self:
        return self._binary("shl", other)

    def __rlshift__(self, other: Operand) -> Self:
        return self._binary("shl", other, swapped=True)

    def __rshift__(self, other: Operand) -> Self:
        return self._binary("shr", other)

    def __rrshift__(self, other: Operand) -> Self:
        return self._binary("shr", other, swapped=True)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # elementwise
        return self._binary("eq", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]  # elementwise
        return self._binary("ne", other)

    def __lt__(self, other: Operand) -> Self:
        return self._binary("lt", other)

    def __le__(self, other: Operand) -> Self:
        return self._binary("le", other)

    def __gt__(self, other: Operand) -> Self:
        return self._binary("gt", other)

    def __ge__(self, other: Operand) -> Self:
        return self._binary("ge", other)

    def __neg__(self) -> Self:
        return self._unary("neg")

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._unary("abs")

    def __invert__(self) -> Self:
        return self._unary("not")
