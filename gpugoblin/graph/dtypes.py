"""Which dtypes and operators a graph asks of whoever computes it, and which ones an engine has.

Owns: the three uses of a dtype, what a graph needs, the bits by which both are compared. Must not:
know any backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node

__all__ = ["ARITHMETIC", "COMMON", "EVERY_DTYPE", "Dtypes", "Use", "needs_of", "use_of"]

Use = Literal["values", "arithmetic", "convolutions"]

ARITHMETIC: Final = frozenset(
    {"matmul", "reduce", "reduce_arg", "scan_reduce", "scatter", "searchsorted", "topk"}
)
"""Operators that do more with numbers than to move them; what formulas do counts as a value."""

_COMMON: Final = """
broadcast cast concat conv flip fold formula gather iota matmul pad permute pool random reduce
reduce_arg reshape scan_reduce scatter searchsorted slice topk update_slice window
"""
COMMON: Final = frozenset(_COMMON.split())
"""Primitives that every engine has. The others (linear algebra, Fourier transforms, loops) only
those that compute the whole catalog have."""

_PLACES: Final = {dtype: place for place, dtype in enumerate(DTYPES)}
_WIDTH: Final = 16
"""Bits for each use: more than there are dtypes, and three uses fit 62 bits."""


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Dtypes by what is done with them; what a graph needs, or what an engine has.

    Args:
        values: stored, moved, computed with element by element.
        arithmetic: operands of the operators of `ARITHMETIC`.
        convolutions: operands of `conv`.
        others: primitives beyond `COMMON`.
    """

    values: frozenset[str] = frozenset()
    arithmetic: frozenset[str] = frozenset()
    convolutions: frozenset[str] = frozenset()
    others: bool = False

    @classmethod
    def of(
        cls,
        values: Iterable[str],
        arithmetic: Iterable[str],
        convolutions: Iterable[str],
        *,
        others: bool = False,
    ) -> Dtypes:
        return cls(frozenset(values), frozenset(arithmetic), frozenset(convolutions), others)

    def has(self, use: Use, dtype: str) -> bool:
        found: frozenset[str] = getattr(self, use)
        return dtype in found

    def mask(self) -> int:
        """One bit for each use of each dtype and one for `others`, below 2^62; `needs & ~has` is
        what is missing."""
        uses = (self.values, self.arithmetic, self.convolutions)
        bits = sum(
            1 << (number * _WIDTH + _PLACES[dtype])
            for number, dtypes in enumerate(uses)
            for dtype in dtypes
        )
        return bits | int(self.others) << (len(uses) * _WIDTH)


EVERY_DTYPE: Final = Dtypes.of(DTYPES, DTYPES, DTYPES, others=True)
"""What the processor has."""


def use_of(node: Node, specs: Sequence[TensorSpec]) -> tuple[Use, str]:
    """What a primitive does with the dtype of its first operand.

    Args:
        specs: of all values of the graph.
    """
    dtype = specs[node.inputs[0]].dtype if node.inputs else node.outputs[0].dtype
    if node.operator == "conv":
        return "convolutions", dtype
    moves = node.operator == "scatter" and node.attrs["function"] == "set"
    if node.operator in ARITHMETIC and not moves:
        return "arithmetic", dtype
    return "values", dtype


def needs_of(graph: Graph) -> Dtypes:
    """What a graph needs where every composite runs as its decomposition, loops included.

    Args:
        graph: one that passes `check`.
    """
    found: dict[Use, set[str]] = {"values": set(), "arithmetic": set(), "convolutions": set()}
    operators: set[str] = set()
    _collect(graph, found, operators)
    return Dtypes.of(
        found["values"],
        found["arithmetic"],
        found["convolutions"],
        others=not operators <= COMMON,
    )


def _collect(graph: Graph, found: dict[Use, set[str]], operators: set[str]) -> None:
    graph = expand(graph).graph
    specs = graph.specs()
    found["values"].update(spec.dtype for spec in specs)
    for node in graph.nodes:
        operators.add(node.operator)
        use, dtype = use_of(node, specs)
        found[use].add(dtype)
        tree = node.attrs.get("tree")
        if isinstance(tree, Formula):
            found["values"].update(step.dtype for step in tree.nodes if step.dtype)
        for body in node.bodies():
            _collect(body, found, operators)
