"""Graph to steps of a card: what is fused, which kernels, where every value lies.

Owns: the compilation. Must not: choose offsets of intermediates itself: the one planner of
`gpugoblin.graph.memory` does. A composite runs as its decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from app.engine.backends.card.elementwise import chain, tree_of
from app.engine.backends.card.functions import FUNCTIONS, SERVED
from app.engine.backends.card.joining import joined_groups, kept_of
from app.engine.backends.card.ordered import ORDERED
from app.engine.backends.card.rows import row_chain, row_shape
from app.engine.backends.card.served import WIDE_DTYPES
from app.engine.backends.card.stages import MAX_ELEMENTS, Stage
from app.engine.backends.card.steps import ALIGNMENT_BYTES, ERROR_SLOT_BYTES, CardStep, Layout
from app.engine.backends.card.table import EMITTERS, Emission
from app.engine.backends.card.target import LEAST, Target, target, written_for
from app.engine.fusion import Group
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.lowering import LOWERED, lower_formula
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.rules import int_attribute
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.dtypes import Dtypes, use_of
from gpugoblin.graph.exact import not_exact
from gpugoblin.graph.expand import Expanded, expand
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.graph.memory import plan_memory

__all__ = ["Chooser", "has_floats", "lay_out", "require_served"]

Chooser = Callable[[Node, Sequence[TensorSpec]], Emission | None]
"""What a card has for a node beside the common kernels: the node, the specs of its inputs."""


def lay_out(
    expanded: Expanded, choose: Chooser, card: Target = LEAST, page_bytes: int = 0
) -> Layout:
    """The steps of a graph that is served, on a card that promises so much.

    Args:
        page_bytes: the card gives memory in pieces of this size, so nothing lies across a multiple
            of it; 0 where it is one piece.

    Raises:
        EngineError: `does_not_fit_at_once` for a tensor, or what a step takes beside, that is
            larger.
    """
    graph = expanded.graph
    with written_for(card):
        made = _Compiler(graph, graph.specs(), choose, expanded.origins, page_bytes)
        return made.layout()


def require_served(
    graph: Graph, numeric_class: str = "float32", served: Dtypes = WIDE_DTYPES
) -> Expanded:
    """The graph in operators that have kernels.

    Raises:
        EngineError: `task_refused` for what this backend does not serve.
    """
    if numeric_class == "exact":
        culprit = not_exact(graph)
        if culprit is not None:
            raise EngineError("task_refused", reason=f"{culprit} is not in class exact")
    expanded = expand(graph, lambda operator: operator.key in EMITTERS)
    _require_kinds(expanded.graph.specs(), served)
    _require_kernels(expanded.graph, served, exact=numeric_class == "exact")
    return expanded


def has_floats(expanded: Expanded) -> bool:
    """Does class `exact` mean an order of sums here?"""
    return any(spec.dtype == "float32" for spec in expanded.graph.specs())


def _require_kinds(specs: Sequence[TensorSpec], served: Dtypes) -> None:
    for spec in specs:
        if not served.has("values", spec.dtype):
            raise EngineError("task_refused", reason=f"no kernel for {spec.dtype}")
        if spec.count > MAX_ELEMENTS:
            raise EngineError("task_refused", reason=f"a tensor has {spec.count} elements")


def _require_kernels(graph: Graph, served: Dtypes, *, exact: bool) -> None:
    specs = graph.specs()
    for node in graph.nodes:
        key = f"{node.operator}@{node.version}"
        if key == "formula@1":
            _require_functions(node, served, FUNCTIONS.keys() | LOWERED if exact else SERVED)
        elif key not in EMITTERS and node.operator != "reshape":
            raise EngineError("task_refused", reason=f"no kernel for {key}")
        else:
            use, dtype = use_of(node, specs)
            if not served.has(use, dtype):
                reason = f"no kernel for {node.operator} of {dtype}"
                raise EngineError("task_refused", reason=reason)


def _require_functions(node: Node, served: Dtypes, functions: AbstractSet[str]) -> None:
    tree = node.attrs["tree"]
    steps = tree.nodes if isinstance(tree, Formula) else ()
    for step in steps:
        known = step.function in functions or step.function in ("input", "const", "cast")
        if not known or (step.dtype and not served.has("values", step.dtype)):
            raise EngineError("task_refused", reason=f"no kernel for {step.function}")


@dataclass(slots=True)
class _Compiler:
    graph: Graph
    specs: tuple[TensorSpec, ...]
    choose: Chooser
    origins: tuple[int, ...]
    page_bytes: int = 0
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """First byte in the block and length of every stored value."""
    size_bytes: int = 0

    def _take(self, nbytes: int) -> int:
        size_bytes = -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if self.page_bytes:
            if size_bytes > self.page_bytes:
                raise EngineError("does_not_fit_at_once", needed_bytes=nbytes)
            inside = self.size_bytes % self.page_bytes
            if inside + size_bytes > self.page_bytes:
                self.size_bytes += self.page_bytes - inside
        place = self.size_bytes
        self.size_bytes += size_bytes
        return place

    def _require_pages(self) -> None:
        largest = max((spec.nbytes for spec in self.specs), default=0)
        if self.page_bytes and largest > self.page_bytes:
            raise EngineError("does_not_fit_at_once", needed_bytes=largest)

    def layout(self) -> Layout:
        graph = self.graph
        self._require_pages()
        inputs = tuple(self._take(spec.nbytes) for spec in graph.inputs)
        outputs = tuple(self._take(spec.nbytes) for spec in graph.output_specs())
        constants = tuple(self._take(constant.spec.nbytes) for constant in graph.constants)
        arena = self.size_bytes
        plan = plan_memory(graph, self.page_bytes, arena)
        self.size_bytes += -(-plan.arena_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        before = (*inputs, *constants)
        for value, base in enumerate(plan.bases):
            if base < len(before):
                place = before[base]
            elif base in plan.homes:
                place = outputs[plan.homes[base]]
            else:
                place = arena + plan.offsets[base]
            self.places[value] = (place, self.specs[value].nbytes)
        found = joined_groups(graph, plan.offsets)
        emissions = [self._emission(group) for group in found]
        scratch = self._take(max((one.scratch_bytes for one in emissions), default=0))
        errors = self._take(ERROR_SLOT_BYTES * len(emissions))
        steps = tuple(
            self._step(group, one, scratch, errors + ERROR_SLOT_BYTES * number)
            for number, (group, one) in enumerate(zip(found, emissions, strict=True))
        )
        return Layout(
            input_specs=graph.inputs,
            output_specs=graph.output_specs(),
            inputs=inputs,
            outputs=outputs,
            constants=tuple(zip(constants, self._constants(), strict=True)),
            steps=steps,
            copies=tuple(
                (self.places[value][0], outputs[output], self.specs[value].nbytes)
                for output, value in plan.copies
            ),
            errors=(errors, len(steps) if any(step.error for step in steps) else 0),
            size_bytes=self.size_bytes,
            canonical=target().ordered,
        )

    def _constants(self) -> list[Array]:
        return [constant.array() for constant in self.graph.constants]

    def _tensors(self, group: Group) -> tuple[list[int], list[int]]:
        """The values that a group reads, and those that it must write."""
        results = list(group.results)
        if not group.chain:
            return list(self.graph.nodes[group.nodes[0]].inputs), results
        return sorted(group.reads), kept_of(self.graph, group.nodes, results)

    def _emission(self, group: Group) -> Emission:
        nodes = [self.graph.nodes[index] for index in group.nodes]
        reads, writes = self._tensors(group)
        if group.chain:
            results = list(group.results)
            if target().ordered:
                nodes = [self._lowered(node) for node in nodes]
            shape = row_shape(nodes, self.specs)
            if shape is not None:
                return Emission((row_chain(shape, nodes, results, reads, writes, self.specs),))
            return Emission(tuple(chain(nodes, results, reads, writes, self.specs)))
        node = nodes[0]
        if node.operator == "reshape":
            return Emission(())  # it lies where its operand lies
        specs = [self.specs[value] for value in reads]
        key = f"{node.operator}@{node.version}"
        if target().ordered and node.outputs[0].dtype == "float32":
            return ORDERED.get(key, EMITTERS[key])(node.attrs, specs, node.outputs)
        chosen = self.choose(node, specs)
        if chosen is not None:
            return chosen
        emitter = EMITTERS[key]
        return emitter(node.attrs, specs, node.outputs)

    def _lowered(self, node: Node) -> Node:
        """A formula of basic functions."""
        tree = lower_formula(tree_of(node), [self.specs[value].dtype for value in node.inputs])
        return replace(node, attributes=(("tree", tree),))

    def _step(self, group: Group, emission: Emission, scratch: int, error: int) -> CardStep:
        reads, writes = self._tensors(group)
        known = [self.places[value] for value in (*reads, *writes)]
        known += [(scratch, emission.scratch_bytes), (error, ERROR_SLOT_BYTES)]
        bound: list[tuple[Stage, tuple[tuple[int, int], ...]]] = []
        for stage in emission.stages:
            shifts = stage.shifts or (0,) * len(stage.tensors)
            places = [
                (known[number][0] + shift, known[number][1] - shift)
                for number, shift in zip(stage.tensors, shifts, strict=True)
            ]
            bound.append((stage, tuple(places)))
        checked: tuple[int, int] | None = None
        if emission.checks:
            node = self.graph.nodes[group.nodes[0]]
            axis = int_attribute(node.attrs, "axis")
            checked = (axis, self.specs[reads[0]].shape[axis])
        weight = sum(self._weight(self.graph.nodes[index]) for index in group.nodes)
        return CardStep(self.origins[group.nodes[-1]], tuple(bound), weight, checked)

    def _weight(self, node: Node) -> float:
        """Flops; a byte moved counts as four."""
        operator = OPERATORS[f"{node.operator}@{node.version}"]
        inputs = [self.specs[value] for value in node.inputs]
        cost = operator.cost(inputs, node.outputs, node.attrs)
        return cost.flops + 4.0 * (cost.bytes_read + cost.bytes_written) + 1.0
