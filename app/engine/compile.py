"""Graph to program: where every value lies, what is fused, which kernel runs.

Owns: the compilation. Must not: run anything, or choose offsets itself: the one planner of
`gpugoblin.graph.memory` does, and the engine keeps to its bound.

A composite for which the backend has no kernel runs as its decomposition.

An operator that only moves elements costs nothing where its input is an input or a constant of the
graph (or a view of one): those stay in place for the whole task, so a view of them is sound. A view
of an intermediate would outlive what the planner promised, so that is copied; only reshapes are
views everywhere, and the planner knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from app.engine.backends.spec import Backend, ExactBackend, Kernel, View
from app.engine.context import Context
from app.engine.fusion import Group, groups
from app.engine.program import Home, Program, Step
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.lowering import lower_formula
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import DTYPES, Array, Attributes, TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.graph.memory import MemoryPlan, plan_memory

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, backend: Backend, numeric_class: str = "float32") -> Program:
    """A program for a checked graph.

    Raises:
        EngineError: `task_refused` for a class that the graph cannot be computed in.
    """
    if numeric_class == "exact":
        return _exact(graph, backend)
    expanded = expand(graph, lambda operator: operator.key in backend.kernels)
    graph, specs = expanded.graph, expanded.graph.specs()
    return _Compiler(graph, specs, backend, expanded.origins, backend.kernels).program()


def _exact(graph: Graph, backend: Backend) -> Program:
    """Composites are always their decompositions, and every NaN has one pattern in the end."""
    culprit = not_exact(graph)
    if culprit is not None:
        reason = f"{culprit} is not in class exact"
        raise EngineError("task_refused", reason=reason)
    expanded = expand(graph)
    graph, specs = expanded.graph, expanded.graph.specs()
    kernels = backend.kernels
    if any(spec.dtype == "float32" for spec in specs):
        if not isinstance(backend, ExactBackend):
            raise EngineError("task_refused", reason="class exact serves integers and bool only")
        kernels = backend.exact_kernels
    program = _Compiler(graph, specs, backend, expanded.origins, kernels, exact=True).program()
    return replace(program, canonical=True)


def _lowered(node: Node, specs: tuple[TensorSpec, ...]) -> Node:
    """A formula of basic functions. It was checked before; now it may be over the limits."""
    tree = node.attrs["tree"]
    if not isinstance(tree, Formula):
        raise TypeError("the attribute tree of formula must be a Formula")
    plain = lower_formula(tree, [specs[value].dtype for value in node.inputs])
    return replace(node, attributes=(("tree", plain),))


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
    origins: tuple[int, ...]
    """For each node the one of the task's graph that errors are reported at."""
    kernels: Mapping[str, Kernel]
    exact: bool = False
    homes: dict[int, Home] = field(default_factory=dict)
    views: dict[int, Array] = field(default_factory=dict)
    """Shapes and strides of values that are views, over memory that is never read."""
    steps: list[Step] = field(default_factory=list)

    def program(self) -> Program:
        graph = self.graph
        plan = plan_memory(graph)
        weights = _weights(graph, self.specs)
        total = sum(weights) or 1.0
        self._settle(plan)
        for group in groups(graph, plan.offsets):
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
            copies=plan.copies,
            arena_bytes=plan.arena_bytes,
            scratch_bytes=plan.scratch_bytes,
        )

    def _settle(self, plan: MemoryPlan) -> None:
        """Gives every stored value its home: that of the value whose storage it uses."""
        inputs, constants = len(self.graph.inputs), len(self.graph.constants)
        for value, base in enumerate(plan.bases):
            if base < inputs:
                self.homes[value] = ("input", base)
            elif base < inputs + constants:
                self.homes[value] = ("constant", base - inputs)
            elif base in plan.homes:
                self.homes[value] = ("output", plan.homes[base])
            else:
                self.homes[value] = ("arena", plan.offsets[base])

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
        if not kept:
            return  # a decomposition made what nobody reads
        if self.exact:
            nodes = [_lowered(node, self.specs) for node in nodes]
        reads = sorted(group.reads)
        run = self.backend.chain(nodes, results, reads, kept, self.specs)
        self.steps.append(
            Step(self.origins[group.nodes[-1]], tuple(reads), tuple(kept), run, None, share)
        )

    def _single(self, group: Group, share: float) -> None:
        index = group.nodes[0]
        node = self.graph.nodes[index]
        key = f"{node.operator}@{node.version}"
        results = tuple(group.results)
        view = self.backend.views.get(key)
        if view is not None and self._may_view(node, results[0], view):
            self.homes.pop(results[0], None)
            self.steps.append(
                Step(
                    self.origins[index],
                    node.inputs,
                    results,
                    None,
                    _bound_view(view, node.attrs),
                    share,
                )
            )
            return
        if node.operator == "reshape":
            return  # it lies where its operand lies
        kernel = self.kernels[key]
        self.steps.append(
            Step(
                self.origins[index],
                node.inputs,
                results,
                _bound_kernel(kernel, node.attrs),
                None,
                share,
            )
        )

    def _may_view(self, node: Node, result: int, view: View) -> bool:
        source = node.inputs[0]
        home = self.homes.get(source)
        if home is not None and home[0] in ("input", "constant"):
            self.views.setdefault(source, _memoryless(self.specs[source]))
        if source not in self.views or self.homes[result][0] == "output":
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
