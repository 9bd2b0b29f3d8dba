"""Values of a kernel in the making, with the arithmetic of Python.

Owns: the operators of `Value`. What they become is the business of `kernel.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.engine.backends.card.spirv import WIDTHS

if TYPE_CHECKING:
    from app.engine.backends.card.kernel import Kernel

__all__ = ["Number", "Value"]

Number = int | float | bool


class Value:
    """A value in a register of a thread. Arithmetic takes Python numbers for the other side."""

    __slots__ = ("id", "kernel", "kind", "known")

    def __init__(self, kernel: Kernel, kind: str, id_: int, known: int | None = None) -> None:
        self.kernel, self.kind, self.id, self.known = kernel, kind, id_, known

    def _with(self, name: str, other: Value | Number) -> Value:
        return self.kernel.arithmetic(name, self, other)

    def _test(self, name: str, other: Value | Number) -> Value:
        return self.kernel.test(name, self, other)

    def __add__(self, other: Value | Number) -> Value:
        return self._with("add", other)

    def __sub__(self, other: Value | Number) -> Value:
        return self._with("sub", other)

    def __mul__(self, other: Value | Number) -> Value:
        return self._with("mul", other)

    def __truediv__(self, other: Value | Number) -> Value:
        return self._with("div", other)

    def __floordiv__(self, other: Value | Number) -> Value:
        return self._with("div", other)

    def __mod__(self, other: Value | Number) -> Value:
        return self._with("mod", other)

    def __and__(self, other: Value | Number) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._with("xor", other)

    def __lshift__(self, other: Value | Number) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: Value | Number) -> Value:
        return self._with("shr", other)

    def __lt__(self, other: Value | Number) -> Value:
        return self._test("lt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._test("le", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._test("gt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._test("ge", other)

    def same(self, other: Value | Number) -> Value:
        return self._test("eq", other)

    def differs(self, other: Value | Number) -> Value:
        return self._test("ne", other)

    def __neg__(self) -> Value:
        name = "FNegate" if self.kind == "float32" else "SNegate"
        return self.kernel.make(name, self.kind, self)

    def __invert__(self) -> Value:
        return self.kernel.make("LogicalNot" if self.kind == "bool" else "Not", self.kind, self)

    def bits(self, kind: str) -> Value:
        """The same bits as another kind of the same width."""
        return self.kernel.make("Bitcast", kind, self) if kind != self.kind else self

    def as_(self, kind: str) -> Value:
        """An integer in another width or sign: cut, or extended by its own sign."""
        if kind == self.kind:
            return self
        if self.known is not None:
            return self.kernel.number(kind, self.known)
        if WIDTHS[kind] == WIDTHS[self.kind]:
            return self.bits(kind)
        if self.kind.startswith("u"):
            wide = self.kernel.make("UConvert", _signless(kind), self)
        else:
            wide = self.kernel.make("SConvert", _signed(kind), self)
        return wide.bits(kind)


def _signless(kind: str) -> str:
    return kind if kind.startswith("u") else f"u{kind}"


def _signed(kind: str) -> str:
    return kind.removeprefix("u")
