"""The nodes of a lazy expression, before they become a graph.

Owns: the data. A node names an operator of the catalog, or one of four forms of its own: `input`
(a source), `constant`, `literal` (a Python number) and `scalar:NAME` (a scalar function of
`formula`, applied elementwise), which lowering fuses into formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpugoblin.capture.caller import NOWHERE, Place
from gpugoblin.capture.source import Source
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.catalog.spec import AttrValue, TensorSpec

__all__ = ["CAST", "CONSTANT", "INPUT", "LITERAL", "SCALAR", "Expression", "Value", "in_order"]

INPUT: Final = "input"
CONSTANT: Final = "constant"
LITERAL: Final = "literal"
SCALAR: Final = "scalar:"
CAST: Final = "scalar:cast"


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """One node. Two nodes are equal only when they are the same object.

    Args:
        operator: see the module.
        operands: values of earlier nodes.
        specs: one per output.
        attributes: of a catalog operator.
        source: for `input`. data: for `constant` and `literal` (a 0-d array).
        place: the researcher's line.
    """

    operator: str
    operands: tuple[Value, ...]
    specs: tuple[TensorSpec, ...]
    attributes: Mapping[str, AttrValue] = field(default_factory=dict)
    source: Source | None = None
    data: NumpyArray | None = None
    place: Place = NOWHERE

    @property
    def elementwise(self) -> bool:
        """True when lowering may fuse it into a formula."""
        return self.operator.startswith(SCALAR) or self.operator == LITERAL


@dataclass(frozen=True, slots=True)
class Value:
    """Output `index` of a node."""

    node: Expression
    index: int

    @property
    def spec(self) -> TensorSpec:
        return self.node.specs[self.index]


def in_order(outputs: tuple[Value, ...]) -> Iterator[Expression]:
    """Every node that `outputs` need, operands first, each once. No recursion, any depth."""
    seen: set[int] = set()
    stack: list[tuple[Expression, int]] = [(value.node, 0) for value in reversed(outputs)]
    while stack:
        node, next_operand = stack.pop()
        if next_operand == 0 and id(node) in seen:
            continue
        seen.add(id(node))
        while next_operand < len(node.operands):
            operand = node.operands[next_operand].node
            next_operand += 1
            if id(operand) not in seen:
                stack.append((node, next_operand))
                stack.append((operand, 0))
                break
        else:
            yield node
