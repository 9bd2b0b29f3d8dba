"""Building graphs. Owns: numbering, merging of equal nodes and constants, pruning.

The builder gives each value a number of its own; the built graph has other numbers. Programs that
compute the same outputs from the same inputs by the same applications get equal graphs, in
whatever order they were added and whatever else was added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.bodies import replay
from gpugoblin.catalog.spec import DTYPES, Array, Builder, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.check import LIMITS, GraphLimits, apply, check, check_spec
from gpugoblin.graph.ir import Constant, Graph, Node

__all__ = ["GraphBuilder"]


@dataclass(frozen=True, slots=True)
class _Value:
    """Where a value comes from: an input (its place), a constant, or output `output` of a node."""

    spec: TensorSpec
    source: int | Constant | Node
    output: int = 0


class GraphBuilder:
    """Collects inputs, constants and applications; `build` makes the graph.

    Args:
        limits: checked as soon as something is added.
    """

    def __init__(self, limits: GraphLimits = LIMITS) -> None:
        self._limits = limits
        self._values: list[_Value] = []
        self._input_count = 0
        self._known: dict[Constant | Node, int] = {}

    def input(self, spec: TensorSpec) -> int:
        """A new input of the graph; inputs keep the order in which they are declared.

        Raises:
            GraphError: graph_malformed, over_limit.
        """
        check_spec(spec, f"input {self._input_count}", self._limits)
        self._values.append(_Value(spec, self._input_count))
        self._input_count += 1
        return len(self._values) - 1

    def constant(self, array: Array) -> int:
        """A constant of at most 1 MiB; its dtype must be one of the catalog, nothing is converted.

        Raises:
            GraphError: dtype_unsupported, over_limit.
        """
        array = np.asarray(array)
        little = array.dtype.newbyteorder("<")
        name = next((name for name, dtype in DTYPES.items() if dtype == little), None)
        if name is None:
            raise GraphError(
                "dtype_unsupported",
                operator="a constant",
                dtypes=str(array.dtype),
                accepted=", ".join(DTYPES),
            )
        spec = TensorSpec(name, array.shape)
        check_spec(spec, "a constant", self._limits)
        if spec.nbytes > self._limits.constant_bytes:
            raise GraphError(
                "over_limit",
                where="a constant",
                what="bytes",
                value=spec.nbytes,
                limit=self._limits.constant_bytes,
            )
        constant = Constant(spec, array.astype(DTYPES[name]).tobytes())
        return self._remember(constant, (spec,))

    def add(self, operator: str, inputs: Sequence[int], **attributes: object) -> int:
        """Applies the newest version of an operator; the number of its first output.

        Raises:
            GraphError: unknown_operator, arity_wrong, attribute_*, or what its `infer` raises.
        """
        return self.add_many(operator, inputs, **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[int], **attributes: object
    ) -> tuple[int, ...]:
        """As `add`, with the numbers of all outputs."""
        return self.apply(operator, None, inputs, attributes)

    def apply(
        self,
        operator: str,
        version: int | None,
        inputs: Sequence[int],
        attributes: dict[str, object],
    ) -> tuple[int, ...]:
        """As `add_many`, for a given version: what rewrites use to keep a node's own."""
        declared = registry.get(operator, version)
        canonical = normalize_attributes(declared, attributes)
        operands = tuple(index(value) for value in inputs)
        specs = [self.spec(value) for value in operands]
        outputs = apply(declared, specs, canonical, declared.key, self._limits)
        node = Node(declared.name, declared.version, canonical, operands, outputs)
        first = self._remember(node, outputs)
        return tuple(range(first, first + len(outputs)))

    def body(
        self,
        inputs: Sequence[TensorSpec],
        write: Callable[[Builder, Sequence[int]], Sequence[int]],
    ) -> Graph:
        """A program for an attribute, written on a builder of its own.

        Raises:
            GraphError: as `build`, or what `write` raises.
        """
        inner = GraphBuilder(self._limits.inside())
        return inner.build(write(inner, [inner.input(spec) for spec in inputs]))

    def derivative(self, body: Graph, wrt: Sequence[int], of: Sequence[int]) -> Graph:
        """The gradients of a body alone; see `gpugoblin.graph.grad`.

        Raises:
            GraphError: as `gradient`.
        """
        from gpugoblin.graph.grad import gradient

        joint = gradient(body, wrt, of=of, seeded=True)
        whole = Graph(
            joint.inputs, joint.constants, joint.nodes, joint.outputs[len(body.outputs) :]
        )
        return self.body(joint.inputs, lambda inner, values: replay(whole, inner, values))

    def spec(self, value: int) -> TensorSpec:
        """The spec of a value.

        Raises:
            GraphError: graph_malformed, when there is no such value.
        """
        if not 0 <= value < len(self._values):
            raise GraphError(
                "graph_malformed", where="the builder", reason=f"value {value!r} does not exist"
            )
        return self._values[value].spec

    def source(self, value: int) -> int | Constant | Node:
        """Where a value comes from: the number of an input, a constant, or a node.

        Raises:
            GraphError: graph_malformed, when there is no such value.
        """
        self.spec(value)
        return self._values[value].source

    def output(self, value: int) -> int:
        """Which output of its node a value is; 0 for inputs and constants."""
        self.spec(value)
        return self._values[value].output

    def build(self, outputs: Sequence[int]) -> Graph:
        """The graph of `outputs`, with all declared inputs and nothing that is not needed.

        Raises:
            GraphError: graph_malformed, over_limit.
        """
        return self.build_numbered(outputs)[0]

    def build_numbered(self, outputs: Sequence[int]) -> tuple[Graph, dict[int, int]]:
        """As `build`, with the graph's number of every builder's value that it kept."""
        for value in outputs:
            self.spec(value)
        constants, nodes = self._walk(outputs)
        numbers: dict[int, int] = {}
        for number, known in enumerate(self._values):
            if isinstance(known.source, int):
                numbers[number] = known.source
        for place, number in enumerate(constants):
            numbers[number] = self._input_count + place
        next_value = self._input_count + len(constants)
        built: list[Node] = []
        for first in nodes:
            node = self._values[first].source
            if not isinstance(node, Node):
                continue
            inputs = tuple(numbers[value] for value in node.inputs)
            built.append(Node(node.operator, node.version, node.attributes, inputs, node.outputs))
            for output in range(len(node.outputs)):
                numbers[first + output] = next_value + output
            next_value += len(node.outputs)
        graph = Graph(
            inputs=tuple(value.spec for value in self._values if isinstance(value.source, int)),
            constants=tuple(
                value.source
                for value in map(self._values.__getitem__, constants)
                if isinstance(value.source, Constant)
            ),
            nodes=tuple(built),
            outputs=tuple(numbers[value] for value in outputs),
        )
        check(graph, self._limits)
        return graph, numbers

    def __len__(self) -> int:
        """How many values were made."""
        return len(self._values)

    def _walk(self, outputs: Sequence[int]) -> tuple[list[int], list[int]]:
        """Constants and first outputs of nodes that `outputs` need, each after what it reads, in
        the order of a depth-first walk from the first output."""
        constants: list[int] = []
        nodes: list[int] = []
        seen: set[int] = set()
        stack = [(value, False) for value in reversed(outputs)]
        while stack:
            value, ready = stack.pop()
            known = self._values[value]
            first = value - known.output
            if ready:
                nodes.append(first)
            elif first not in seen:
                seen.add(first)
                if isinstance(known.source, Node):
                    stack.append((first, True))
                    stack.extend((operand, False) for operand in reversed(known.source.inputs))
                elif isinstance(known.source, Constant):
                    constants.append(first)
        return constants, nodes

    def _remember(self, source: Constant | Node, outputs: Sequence[TensorSpec]) -> int:
        first = self._known.setdefault(source, len(self._values))
        if first == len(self._values):
            self._values.extend(_Value(spec, source, output) for output, spec in enumerate(outputs))
        return first
