"""Graph to program: where every value lies, what is fused, which kernel runs.

Owns: the compilation. Must not: run anything, or choose offsets itself: the one planner of
`gpugoblin.graph.memory` does, and the engine keeps to its bound.

An operator that only moves elements costs nothing where its input is an input or a constant of the
graph (or a view of one): those stay in place for the whole task, so a view of them is sound. A view
of an intermediate would outlive what the planner promised, so that is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.graph.memory import plan_memory

from app.engine.backends.spec import Backend, Kernel, View
from app.engine.context import Context
from app.engine.fusion import Group, groups
from app.engine.program import Home, Program, Step
from gpugoblin.catalog.spec import DTYPES, Array, Attributes, TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.ir import Graph, Node

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, backend: Backend, numeric_class: str = "float32") -> Program:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for a class that the graph cannot be computed in.
    """
    specs = graph.specs()
    if numeric_class == "exact" and any(spec.dtype == "float32" for spec in specs):
        raise EngineError("task_refused", reason="class exact serves integers and bool only")
    return _Compiler(graph, specs, backend).program()


def _weights(graph: Graph, specs: tuple[TensorSpec, ...]) -> list[float]:
    """How long each node takes, in flops; a byte moved counts as four."""
    found = []
    for node in graph.nodes:
        operator = OPERATORS[f"{node.operator}@{node.version}"]
        cost = operator.cost([specs[value] for value in node.inputs], node.outputs, node.attrs)
        found.append(cost.flops + 4.0 * (cost.bytes_read + cost.bytes_written) + 1.0)
    return found


@dataclass(slots=True)
class _Compiler:
    graph: Graph
    specs: tuple[TensorSpec, ...]
    backend: Backend
    homes: dict[int, Home] = field(default_factory=dict)
    views: dict[int, Array] = field(default_factory=dict)
    """Shapes and strides of values that are views, over memory that is never read."""
    steps: list[Step] = field(default_factory=list)

    def program(self) -> Program:
        graph = self.graph
        plan = plan_memory(graph)
        weights = _weights(graph, self.specs)
        total = sum(weights) or 1.0
        copies = self._settle(plan.offsets)
        scratch_bytes = 0
        for group in groups(graph, self._arena_offsets()):
            share = sum(weights[index] for index in group.nodes) / total
            if group.chain:
                self._chain(group, share)
            else:
                self._single(group, share)
        return Program(
            input_specs=graph.inputs,
            output_specs=graph.output_specs(),
            specs=self.specs,
            constants=tuple(constant.array() for constant in graph.constants),
            homes=self.homes,
            steps=tuple(self.steps),
            copies=tuple(copies),
            arena_bytes=plan.arena_bytes,
            scratch_bytes=scratch_bytes,
        )

    def _settle(self, offsets: dict[int, int]) -> list[tuple[int, int]]:
        """Gives every value its home; returns the outputs that must be copied."""
        graph = self.graph
        inputs, constants = len(graph.inputs), len(graph.constants)
        for value in range(inputs):
            self.homes[value] = ("input", value)
        for number in range(constants):
            self.homes[inputs + number] = ("constant", number)
        for value in range(inputs + constants, len(self.specs)):
            if value in offsets:
                self.homes[value] = ("arena", offsets[value])
        copies = []
        for output, value in enumerate(graph.outputs):
            home = self.homes.get(value)
            if value < inputs + constants or (home is not None and home[0] == "output"):
                copies.append((value, output))
            else:
                self.homes[value] = ("output", output)
        return copies

    # -- one group -----------------------------------------------------------------------------

    def _chain(self, group: Group, share: float) -> None:
        """A fused chain of formulas; values that nobody else reads exist in registers only."""
        nodes = [self.graph.nodes[index] for index in group.nodes]
        results = list(group.results)
        inside = set(group.nodes)
        outer = {
            value
            for index, node in enumerate(self.graph.nodes)
            if index not in inside
            for value in node.inputs
        }
        kept = [value for value in results if value in outer or value in self.graph.outputs]
        for value in results:
            if value not in kept:
                self.homes.pop(value, None)
        reads = sorted(group.reads)
        run = self.backend.chain(nodes, results, reads, kept, self.specs)
        self.steps.append(Step(group.nodes[-1], tuple(reads), tuple(kept), run, None, share))

    def _single(self, group: Group, share: float) -> None:
        index = group.nodes[0]
        node = self.graph.nodes[index]
        key = f"{node.operator}@{node.version}"
        results = tuple(group.results)
        view = self.backend.views.get(key)
        if view is not None and self._may_view(node, results[0], view):
            self.homes.pop(results[0], None)
            self.steps.append(
                Step(index, node.inputs, results, None, _bound_view(view, node.attrs), share)
            )
            return
        if self._in_place(node, results[0]):
            return
        kernel = self.backend.kernels[key]
        self.steps.append(
            Step(index, node.inputs, results, _bound_kernel(kernel, node.attrs), None, share)
        )

    def _in_place(self, node: Node, result: int) -> bool:
        """The planner may let a reshape lie where its input lies; then nothing is to be done."""
        source = self.homes.get(node.inputs[0])
        return node.operator == "reshape" and source == self.homes.get(result)

    def _may_view(self, node: Node, result: int, view: View) -> bool:
        source = node.inputs[0]
        home = self.homes.get(source)
        if home is not None and home[0] in ("input", "constant"):
            self.views.setdefault(source, _memoryless(self.specs[source]))
        if source not in self.views or self.homes.get(result, ("", 0))[0] == "output":
            return False
        try:
            shaped = view(self.views[source], node.attrs)
        except ValueError:  # a reshape that would have to copy
            return False
        for user in self.graph.nodes:
            if result not in user.inputs:
                continue
            if not self.backend.readable(f"{user.operator}@{user.version}", shaped):
                return False
        self.views[result] = shaped
        return True

    def _arena_offsets(self) -> dict[int, int]:
        return {value: home[1] for value, home in self.homes.items() if home[0] == "arena"}


def _memoryless(spec: TensorSpec) -> Array:
    """An array of the spec's shape and C strides over no memory of its own; never read."""
    dtype = DTYPES[spec.dtype]
    strides = []
    step = dtype.itemsize
    for extent in reversed(spec.shape):
        strides.append(step)
        step *= max(1, extent)
    return np.lib.stride_tricks.as_strided(
        np.empty(1, dtype), spec.shape, tuple(reversed(strides)), writeable=False
    )


def _bound_view(view: View, attributes: Attributes) -> Callable[[Array], Array]:
    return lambda source: view(source, attributes)


def _bound_kernel(
    kernel: Kernel, attributes: Attributes
) -> Callable[[Sequence[Array], Sequence[Array], Context], None]:
    return lambda reads, writes, context: kernel(reads, writes, attributes, context)
