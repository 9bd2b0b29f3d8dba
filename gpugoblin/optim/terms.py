"""Formulas written with + - * /. Owns: that notation and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpugoblin.catalog.building import expression
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import Builder

__all__ = ["Term", "formula", "minimum", "where"]


@dataclass(frozen=True, slots=True)
class Term:
    """A node of a formula; Python numbers that it meets become constants of its dtype."""

    build: FormulaBuilder
    node: int
    dtype: str

    def call(self, function: str, *others: Term | float, dtype: str | None = None) -> Term:
        """`dtype` is that of the result, where it is another."""
        nodes = [self.like(other).node for other in others]
        found = self.build.call(function, self.node, *nodes)
        return Term(self.build, found, self.dtype if dtype is None else dtype)

    def like(self, other: Term | float) -> Term:
        """A constant of this dtype; a term itself."""
        if isinstance(other, Term):
            return other
        return Term(self.build, self.build.const(self.dtype, other), self.dtype)

    def cast(self, dtype: str) -> Term:
        if dtype == self.dtype:
            return self
        return Term(self.build, self.build.cast(self.node, dtype), dtype)

    def __add__(self, other: Term | float) -> Term:
        return self.call("add", other)

    def __radd__(self, other: float) -> Term:
        return self.like(other).call("add", self)

    def __sub__(self, other: Term | float) -> Term:
        return self.call("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.like(other).call("sub", self)

    def __mul__(self, other: Term | float) -> Term:
        return self.call("mul", other)

    def __rmul__(self, other: float) -> Term:
        return self.like(other).call("mul", self)

    def __truediv__(self, other: Term | float) -> Term:
        return self.call("div", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other).call("div", self)

    def __neg__(self) -> Term:
        return self.call("neg")

    def __lt__(self, other: Term | float) -> Term:
        return self.call("lt", other, dtype="bool")

    def __le__(self, other: Term | float) -> Term:
        return self.call("le", other, dtype="bool")


def where(condition: Term, first: Term, second: Term) -> Term:
    """`first` where the condition is true, else `second`."""
    node = first.build.call("where", condition.node, first.node, second.node)
    return Term(first.build, node, first.dtype)


def minimum(first: Term, second: Term | float) -> Term:
    return first.call("min", second)


def formula(builder: Builder, operands: Sequence[int], write: Callable[..., Term]) -> int:
    """One elementwise formula of the operands, all of which `write` uses."""

    def nodes(build: FormulaBuilder, *inputs: int) -> int:
        dtypes = (builder.spec(operand).dtype for operand in operands)
        terms = (Term(build, node, dtype) for node, dtype in zip(inputs, dtypes, strict=True))
        return write(*terms).node

    return expression(builder, operands, nodes)
