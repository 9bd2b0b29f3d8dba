"""From lazy values to a graph of catalog operators.

Owns: the walk that turns expression nodes into a `Graph`, and the order of its inputs. Must not:
know where inputs come from, or optimize beyond the fusing of elementwise nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpugoblin.capture.expression import CAST, CONSTANT, INPUT, LITERAL, Expression, Value, in_order
from gpugoblin.capture.fusing import Group, group_elementwise
from gpugoblin.capture.source import Source
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.errors import CaptureError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Names

__all__ = ["MAX_INPUTS", "Lowered", "lower"]

MAX_INPUTS: Final = 256
"""What one submission carries (`job.submit`)."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph, where each of its inputs comes from, and what people call things."""

    graph: Graph
    sources: tuple[Source, ...]
    names: Names


def lower(outputs: Sequence[Value]) -> Lowered:
    """The graph whose outputs are `outputs`, in order.

    Equal sources (one fingerprint) are one input. Inputs are numbered as they are first met.

    Raises:
        CaptureError: `too_many_inputs`.
        GraphError: a limit of graphs is exceeded.
    """
    nodes = list(in_order(tuple(outputs)))
    lowering = _Lowering(group_elementwise(nodes, outputs))
    for node in nodes:
        if node.operator == INPUT:
            lowering.add_input(node)
    for node in nodes:
        lowering.add(node)
    graph = lowering.builder.build([lowering.number(value) for value in outputs])
    used = tuple(lowering.sources)
    names = Names(inputs=tuple(source.name for source in used), lines=lowering.lines)
    return Lowered(graph, used, names)


class _Lowering:
    """The state of one walk."""

    def __init__(self, groups: dict[Expression, Group]) -> None:
        self.builder = GraphBuilder()
        self.sources: list[Source] = []
        self.lines: dict[int, str] = {}
        self._groups = groups
        self._numbers: dict[Value, int] = {}
        self._inputs: dict[tuple[str, object], int] = {}

    def number(self, value: Value) -> int:
        """The graph's number of a value that has been added; literals become constants."""
        known = self._numbers.get(value)
        if known is None:
            if value.node.data is None:
                raise LookupError(f"{value.node.operator} was not added before its use")
            known = self.builder.constant(value.node.data)
            self._numbers[value] = known
        return known

    def add_input(self, node: Expression) -> None:
        source = node.source
        if source is None:
            raise LookupError("an input without a source")
        key = (source.fingerprint, source.spec)
        if key not in self._inputs:
            self._inputs[key] = self.builder.input(source.spec)
            self.sources.append(source)
            if len(self.sources) > MAX_INPUTS:
                raise CaptureError(
                    "too_many_inputs", line=node.place, count=len(self.sources), limit=MAX_INPUTS
                )
        self._numbers[Value(node, 0)] = self._inputs[key]

    def add(self, node: Expression) -> None:
        if node.operator in (INPUT, LITERAL, CONSTANT):
            return
        if node.elementwise:
            group = self._groups[node]
            if group.root is node:
                self._keep(node, (self._add_group(group),))
            return
        operands = [self.number(value) for value in node.operands]
        if len(node.specs) == 1:
            self._keep(node, (self.builder.add(node.operator, operands, **node.attributes),))
        else:
            self._keep(node, self.builder.add_many(node.operator, operands, **node.attributes))

    def _add_group(self, group: Group) -> int:
        root = group.root
        if len(group.nodes) == 1 and root.operator == CAST:
            (value,) = root.operands
            return self.builder.add("cast", [self.number(value)], **root.attributes)
        formula, reads = _formula(group)
        return self.builder.add("formula", [self.number(value) for value in reads], tree=formula)

    def _keep(self, node: Expression, numbers: Sequence[int]) -> None:
        for index, number in enumerate(numbers):
            self._numbers[Value(node, index)] = number
        self.lines[numbers[0]] = node.place.short


def _formula(group: Group) -> tuple[Formula, list[Value]]:
    """The tree of a group, and the values that its inputs are, in the order of first use. Where
    all are literals, these are its inputs: a formula has one at least."""
    builder = FormulaBuilder()
    inside: dict[Value, int] = {}
    reads: list[Value] = []
    if not group.reads:
        for value in (value for node in reversed(group.nodes) for value in node.operands):
            if value in group.literals and value not in inside:
                inside[value] = builder.input(len(reads))
                reads.append(value)
    for node in reversed(group.nodes):
        operands = [_operand(builder, value, inside, reads) for value in node.operands]
        if node.operator == CAST:
            result = builder.cast(operands[0], str(node.attributes["dtype"]))
        else:
            result = builder.call(node.operator.partition(":")[2], *operands)
        inside[Value(node, 0)] = result
    return builder.build(inside[Value(group.root, 0)]), reads


def _operand(
    builder: FormulaBuilder, value: Value, inside: dict[Value, int], reads: list[Value]
) -> int:
    known = inside.get(value)
    if known is None:
        if value.node.operator == LITERAL and value.node.data is not None:
            known = builder.const(value.spec.dtype, value.node.data.item())
        else:
            known = builder.input(len(reads))
            reads.append(value)
        inside[value] = known
    return known
