"""Products of operands that were rounded to 16 bits read them as 16 bits.

Owns: that rewrite of a graph. A product that the card has a kernel for, and whose operands both
come out of a rounding to one short format, or out of a cast from it, gets the short tensors
themselves; what nobody reads any more is left out. Units for the format multiply such numbers
exactly and add in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from app.engine.backends.card.narrow import HALVES
from app.engine.backends.card.product import Problem
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.expand import Expanded
from gpugoblin.graph.ir import Graph, Node

__all__ = ["rounded_values", "shortened"]

Takes = Callable[[Problem, str], bool]
"""Whether a card multiplies operands in that form with these shapes."""

_ROUNDING: Final = {
    "round_tf32": "tf32",
    "round_bfloat16": "bfloat16",
    "round_float16": "float16",
}


def rounded_values(graph: Graph) -> Mapping[int, str]:
    """The values that are results of a rounding to a short format, with the format's name."""
    specs = graph.specs()
    found: dict[int, str] = {}
    for first, node in graph.numbered_nodes():
        tree = node.attrs.get("tree") if node.operator == "formula" else None
        if isinstance(tree, Formula) and tree.nodes[-1].function in _ROUNDING:
            found[first] = _ROUNDING[tree.nodes[-1].function]
        elif node.operator == "cast" and specs[node.inputs[0]].dtype in HALVES:
            found[first] = specs[node.inputs[0]].dtype
    return found


def shortened(expanded: Expanded, takes: Takes = lambda problem, form: True) -> Expanded:
    """The graph with such products on short tensors, where the card takes them."""
    graph = expanded.graph
    formats = rounded_values(graph)
    if not set(formats.values()) & HALVES:
        return expanded
    walk = _Walk(graph, formats, takes, len(graph.inputs) + len(graph.constants))
    for (first, node), origin in zip(graph.numbered_nodes(), expanded.origins, strict=True):
        walk.add(first, node, origin)
    return walk.result()


@dataclass(slots=True)
class _Walk:
    graph: Graph
    formats: Mapping[int, str]
    takes: Takes
    fixed: int
    nodes: list[Node] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)
    """New numbers of the graph's values."""
    short: dict[int, int] = field(default_factory=dict)
    """New numbers of the short tensors of the graph's values."""
    count: int = 0
    specs: tuple[TensorSpec, ...] = ()

    def __post_init__(self) -> None:
        self.specs = self.graph.specs()

    def add(self, first: int, node: Node, origin: int) -> None:
        inputs = tuple(self._number(value) for value in node.inputs)
        if node.operator == "matmul" and self._is_short(node):
            inputs = tuple(self._short(value, origin) for value in node.inputs)
        number = self._append(replace(node, inputs=inputs), origin)
        for place in range(len(node.outputs)):
            self.values[first + place] = number + place

    def _number(self, value: int) -> int:
        return self.values.get(value, value)

    def _append(self, node: Node, origin: int) -> int:
        number = self.fixed + self.count
        self.nodes.append(node)
        self.origins.append(origin)
        self.count += len(node.outputs)
        return number

    def _is_short(self, node: Node) -> bool:
        found = {self.formats.get(value, "") for value in node.inputs}
        if len(found) != 1 or not found & HALVES:
            return False
        specs = [self.specs[value] for value in node.inputs]
        return self.takes(Problem.of(node.attrs, specs, node.outputs[0]), found.pop())

    def _short(self, value: int, origin: int) -> int:
        """The tensor in 16 bits: what a cast has widened, or a cast of what was rounded."""
        known = self.short.get(value)
        if known is not None:
            return known
        node = self.graph.nodes[self._makers()[value]]
        source = self._number(node.inputs[0])
        if node.operator == "formula" and not _deep(node):
            before = node.inputs[0]  # what was rounded to this format already is not rounded again
            if self.formats.get(before) == self.formats[value]:
                source = self._short(before, origin)
                self.short[value] = source
                return source
        if node.operator == "formula":
            spec = TensorSpec(self.formats[value], node.outputs[0].shape)
            attributes = (("dtype", spec.dtype),)
            source = self._number(value) if len(node.inputs) > 1 or _deep(node) else source
            source = self._append(Node("cast", 1, attributes, (source,), (spec,)), origin)
        self.short[value] = source
        return source

    def _makers(self) -> dict[int, int]:
        return {first: index for index, (first, _) in enumerate(self.graph.numbered_nodes())}

    def result(self) -> Expanded:
        """Without the nodes that nobody reads."""
        outputs = tuple(self._number(value) for value in self.graph.outputs)
        wanted = set(outputs)
        firsts: list[int] = []
        number = self.fixed
        for node in self.nodes:
            firsts.append(number)
            number += len(node.outputs)
        kept: list[int] = []
        for index in reversed(range(len(self.nodes))):
            node = self.nodes[index]
            if wanted & set(range(firsts[index], firsts[index] + len(node.outputs))):
                kept.append(index)
                wanted.update(node.inputs)
        kept.reverse()
        numbers = {value: value for value in range(self.fixed)}
        count = self.fixed
        nodes: list[Node] = []
        for index in kept:
            node = self.nodes[index]
            nodes.append(replace(node, inputs=tuple(numbers[value] for value in node.inputs)))
            for place in range(len(node.outputs)):
                numbers[firsts[index] + place] = count
                count += 1
        graph = replace(
            self.graph, nodes=tuple(nodes), outputs=tuple(numbers[value] for value in outputs)
        )
        return Expanded(graph, tuple(self.origins[index] for index in kept))


def _deep(node: Node) -> bool:
    """Is there more in the formula than the rounding of its input?"""
    tree = node.attrs["tree"]
    return not isinstance(tree, Formula) or len(tree.nodes) > 2
