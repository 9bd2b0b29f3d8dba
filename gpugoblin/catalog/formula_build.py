"""Building formula trees. Owns: merging of equal nodes, pruning, and constants as bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpugoblin.catalog.casting import cast_array
from gpugoblin.catalog.formula import Formula, FormulaNode
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import GraphError

__all__ = ["FormulaBuilder", "call_formula", "const_bits", "const_value"]

_UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


def const_bits(dtype: str, value: float | int | bool) -> int:
    """The bit pattern of `value` in `dtype`, as an unsigned integer of its width.

    Raises:
        GraphError: formula_malformed, when an integer does not fit or the dtype is unknown.
    """
    if dtype not in DTYPES:
        raise GraphError(
            "formula_malformed", node="const", reason=f"the dtype {dtype!r} is unknown"
        )
    target = DTYPES[dtype]
    if target.kind in "iu":
        info = np.iinfo(target)
        if not info.min <= value <= info.max or value != int(value):
            raise GraphError(
                "formula_malformed", node="const", reason=f"{value!r} does not fit {dtype}"
            )
        value = int(value)
    with np.errstate(over="ignore"):
        stored = (
            cast_array(np.array(value), dtype) if target.kind in "fV" else np.array(value, target)
        )
    return int(stored.view(_UNSIGNED[target.itemsize]))


def const_value(node: FormulaNode) -> Array:
    """The 0-d array of a `const` node."""
    dtype = DTYPES[node.dtype]
    return np.asarray(np.array(node.value, _UNSIGNED[dtype.itemsize]).view(dtype))


class FormulaBuilder:
    """Collects nodes; equal nodes are one. Node numbers are the builder's own until `build`.

    Args:
        floating: the dtype of the floats that `real` and terms write.
    """

    def __init__(self, floating: str = "float32") -> None:
        self.floating = floating
        self._nodes: list[FormulaNode] = []
        self._known: dict[FormulaNode, int] = {}

    def node(self, number: int) -> FormulaNode:
        """A node by its number."""
        return self._nodes[number]

    def input(self, number: int) -> int:
        """Input `number` of the operator `formula`."""
        return self.add(FormulaNode("input", value=number))

    def const(self, dtype: str, value: float | int | bool) -> int:
        return self.add(FormulaNode("const", value=const_bits(dtype, value), dtype=dtype))

    def real(self, value: float) -> int:
        """A constant of the dtype `floating`."""
        return self.const(self.floating, value)

    def cast(self, operand: int, dtype: str) -> int:
        return self.add(FormulaNode("cast", (operand,), dtype=dtype))

    def call(self, function: str, *operands: int) -> int:
        """A scalar function of `catalog.scalars`.

        Raises:
            GraphError: formula_malformed, when there is no such function.
        """
        if function not in SCALARS:
            raise GraphError(
                "formula_malformed",
                node=len(self._nodes),
                reason=f"there is no scalar function {function!r}",
            )
        return self.add(FormulaNode(function, tuple(operands)))

    def build(self, result: int) -> Formula:
        """The tree with `result` as its last node, without what it does not use.

        Nodes come in the order of a depth-first walk from the result, so that equal expressions
        are equal trees however they were built.
        """
        order: dict[int, int] = {}
        nodes: list[FormulaNode] = []
        stack = [(result, False)]
        while stack:
            number, ready = stack.pop()
            if number in order:
                continue
            node = self._nodes[number]
            if not ready:
                stack.append((number, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
                continue
            order[number] = len(nodes)
            operands = tuple(order[operand] for operand in node.operands)
            nodes.append(FormulaNode(node.function, operands, node.value, node.dtype))
        return Formula(tuple(nodes))

    def add(self, node: FormulaNode) -> int:
        """A node whose operands are numbers of this builder.

        Raises:
            GraphError: formula_malformed, when an operand is not a known node.
        """
        if any(not 0 <= operand < len(self._nodes) for operand in node.operands):
            raise GraphError(
                "formula_malformed", node=len(self._nodes), reason="an operand is not a known node"
            )
        number = self._known.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        return number


def call_formula(function: str, count: int | None = None) -> Formula:
    """The tree of one function on inputs 0, 1, ...: `call_formula("add")` is x + y."""
    builder = FormulaBuilder()
    arity = SCALARS[function].arity if count is None else count
    return builder.build(builder.call(function, *(builder.input(i) for i in range(arity))))
