"""Composites become primitives: what runs where a backend has no kernel of its own for them.

Owns: that rewrite, and from which node each node of the result comes. Unlike other rewrites it
merges and drops nothing, so that an error can be reported at the node that the researcher wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.spec import DTYPES, Array, AttrValue, Operator, TensorSpec
from gpugoblin.graph.ir import Constant, Graph, Node

__all__ = ["Expanded", "expand"]


@dataclass(frozen=True, slots=True)
class Expanded:
    """Args:
    origins: for each node of `graph` the number of the node that it comes from.
    """

    graph: Graph
    origins: tuple[int, ...]


def expand(graph: Graph, keep: Callable[[Operator], bool] = lambda operator: False) -> Expanded:
    """The graph with the composites decomposed for which `keep` is false.

    Args:
        graph: one that passes `check`.
    """
    operators = [registry.get(node.operator, node.version) for node in graph.nodes]
    kept = [operator.decompose is None or keep(operator) for operator in operators]
    if all(kept):
        return Expanded(graph, tuple(range(len(graph.nodes))))
    inliner = _Inliner(graph.inputs)
    values = list(range(len(graph.inputs)))
    values.extend(inliner.remember(constant) for constant in graph.constants)
    for number, (node, operator, whole) in enumerate(
        zip(graph.nodes, operators, kept, strict=True)
    ):
        inliner.origin = number
        operands = [values[value] for value in node.inputs]
        if whole or operator.decompose is None:
            values.extend(inliner.append(operator, operands, node.attributes, node.outputs))
        else:
            values.extend(operator.decompose(inliner, operands, node.attrs))
    return inliner.result([values[value] for value in graph.outputs])


@dataclass(slots=True)
class _Inliner:
    """A `Builder` whose values get their final numbers at the end: constants come before nodes."""

    inputs: tuple[TensorSpec, ...]
    origin: int = 0
    specs: list[TensorSpec] = field(default_factory=list)
    constants: dict[Constant, int] = field(default_factory=dict)
    nodes: list[tuple[Node, int]] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.specs.extend(self.inputs)

    def spec(self, value: int) -> TensorSpec:
        return self.specs[value]

    def constant(self, array: Array) -> int:
        dtype = next(name for name, kind in DTYPES.items() if kind == array.dtype)
        data = np.ascontiguousarray(array, DTYPES[dtype]).tobytes()
        return self.remember(Constant(TensorSpec(dtype, array.shape), data))

    def remember(self, constant: Constant) -> int:
        known = self.constants.setdefault(constant, len(self.specs))
        if known == len(self.specs):
            self.specs.append(constant.spec)
        return known

    def add(self, operator: str, inputs: Sequence[int], **attributes: AttrValue) -> int:
        return self.add_many(operator, inputs, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[int], **attributes: AttrValue
    ) -> tuple[int, ...]:
        declared = registry.get(operator)
        canonical = normalize_attributes(declared, attributes)
        outputs = declared.infer([self.specs[value] for value in inputs], dict(canonical))
        return self.append(declared, inputs, canonical, outputs)

    def append(
        self,
        operator: Operator,
        inputs: Sequence[int],
        attributes: tuple[tuple[str, AttrValue], ...],
        outputs: tuple[TensorSpec, ...],
    ) -> tuple[int, ...]:
        first = len(self.specs)
        node = Node(operator.name, operator.version, attributes, tuple(inputs), outputs)
        self.nodes.append((node, first))
        self.origins.append(self.origin)
        self.specs.extend(outputs)
        return tuple(range(first, first + len(outputs)))

    def result(self, outputs: Sequence[int]) -> Expanded:
        numbers = {value: value for value in range(len(self.inputs))}
        for place, value in enumerate(self.constants.values(), len(self.inputs)):
            numbers[value] = place
        following = len(numbers)
        nodes = []
        for node, first in self.nodes:
            inputs = tuple(numbers[value] for value in node.inputs)
            nodes.append(Node(node.operator, node.version, node.attributes, inputs, node.outputs))
            for place in range(len(node.outputs)):
                numbers[first + place] = following + place
            following += len(node.outputs)
        graph = Graph(
            inputs=self.inputs,
            constants=tuple(self.constants),
            nodes=tuple(nodes),
            outputs=tuple(numbers[value] for value in outputs),
        )
        return Expanded(graph, tuple(self.origins))
