"""The canonical form of a graph: one of the many graphs that mean the same.

Owns: `canonicalise`, which keeps every bit of every result (one NaN counts as another), and the
order of operands that it needs. It applies the rules of `simplify.py` and `formulas.py`, folds what
only depends on constants (`fold.py`), merges equal nodes and drops dead ones. Doing it twice is
doing it once. Must not: take a composite apart or move work between formulas, which rounds
elsewhere.

Operands of a commutative function are ordered by the hash of what they compute, from the inputs on,
so the order depends on nothing else.
"""

from __future__ import annotations

from typing import Final

from blake3 import blake3

from gpugoblin.catalog import registry
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import AttrValue
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.fold import fold
from gpugoblin.graph.formulas import arrange, tree_hashes
from gpugoblin.graph.ir import Constant, Graph, Node
from gpugoblin.graph.rewrite import rebuild
from gpugoblin.graph.simplify import RULES

__all__ = ["canonicalise"]

_MOST_PASSES: Final = 8


def canonicalise(graph: Graph) -> Graph:
    """The canonical form: the same inputs, outputs and bits.

    Args:
        graph: any graph that passes `check`.

    Raises:
        GraphError: as `check`.
    """
    check(graph)
    for _ in range(_MOST_PASSES):
        found = rebuild(graph, _Pass().replace)
        if found == graph:
            break
        graph = found
    return graph


class _Pass:
    """One walk over a graph. Rules make nodes by `emit`, so that they meet their own results."""

    def __init__(self) -> None:
        self._hashes: dict[int, bytes] = {}

    def replace(
        self, builder: GraphBuilder, node: Node, operands: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        return self.emit(builder, node.operator, node.version, operands, node.attrs)

    def emit(
        self,
        builder: GraphBuilder,
        operator: str,
        version: int | None,
        operands: tuple[int, ...],
        attributes: dict[str, AttrValue],
    ) -> tuple[int, ...]:
        newest = registry.get(operator).version
        found: tuple[int, ...] | None = None
        if version in (None, newest):
            if operator == "formula":
                found = self._formula(builder, operands, attributes)
            elif operator in RULES:
                found = RULES[operator](builder, operands, attributes, self.emit)
        if found is None:
            found = fold(builder, operator, version, operands, attributes)
        if found is None:
            given: dict[str, object] = dict(attributes)
            found = builder.apply(operator, version, operands, given)
        return found

    def _formula(
        self, builder: GraphBuilder, operands: tuple[int, ...], attributes: dict[str, AttrValue]
    ) -> tuple[int, ...] | None:
        tree = attributes["tree"]
        if not isinstance(tree, Formula):
            return None
        hashes = [self._hash(builder, value) for value in operands]
        return arrange(builder, tree, operands, hashes, self.emit)

    def _hash(self, builder: GraphBuilder, value: int) -> bytes:
        """The name of what a value computes."""
        pending = [value]
        while pending:
            top = pending[-1]
            source = builder.source(top)
            if isinstance(source, Node):
                missing = [one for one in source.inputs if one not in self._hashes]
                if missing and top not in self._hashes:
                    pending.extend(missing)
                    continue
            pending.pop()
            if top not in self._hashes:
                self._hashes[top] = self._named(source, builder.output(top))
        return self._hashes[value]

    def _named(self, source: int | Constant | Node, output: int) -> bytes:
        if isinstance(source, int):
            return blake3(b"input %d" % source).digest()
        if isinstance(source, Constant):
            return blake3(b"constant %s" % str(source.spec).encode() + source.data).digest()
        operands = [self._hashes[value] for value in source.inputs]
        if source.operator == "formula":
            tree = source.attrs["tree"]
            if isinstance(tree, Formula):
                shape = repr(source.outputs[0].shape).encode()
                return blake3(b"formula" + tree_hashes(tree, operands)[-1] + shape).digest()
        words = f"{source.operator}@{source.version} {source.attributes!r} {output}"
        return blake3(words.encode() + b"".join(operands)).digest()
