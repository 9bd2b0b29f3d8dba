"""The tree of an elementwise expression: the attribute of the operator `formula`.

Owns: its nodes and their limits. The scalar functions themselves are in `catalog/scalars.py`, the
operator in `catalog/ops/formula.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_FORMULA_INPUTS", "MAX_FORMULA_NODES", "Formula", "FormulaNode"]

MAX_FORMULA_NODES: Final = 256
MAX_FORMULA_INPUTS: Final = 32


@dataclass(frozen=True, slots=True)
class FormulaNode:
    """One node, in single assignment.

    Args:
        function: `input`, `const`, `cast`, or the name of a scalar function.
        operands: indices of earlier nodes.
        value: for `input` the number of the input; for `const` the bit pattern, as an unsigned
            integer of the dtype's width; else 0.
        dtype: for `const` and `cast` the dtype; else empty.
    """

    function: str
    operands: tuple[int, ...] = ()
    value: int = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked tree is at most 256 nodes over at most 32 inputs; the last node is the result."""

    nodes: tuple[FormulaNode, ...]
