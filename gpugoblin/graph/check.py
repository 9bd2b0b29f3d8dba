"""The rules of a graph, as code: run on every graph that is built, decoded or rewritten.

Owns: what a well-formed graph is, and its limits. A graph that passes is typed as the catalog says,
in single assignment, without dead nodes or constants, and within the limits; nothing has been
allocated for it yet. Must not: change a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NoReturn

from gpugoblin.catalog import registry
from gpugoblin.catalog.attributes import check_attributes
from gpugoblin.catalog.spec import DTYPES, MAX_RANK, Operator, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.ir import Constant, Graph, Node
from gpugoblin.units import MIB

__all__ = ["LIMITS", "GraphLimits", "apply", "check", "check_spec"]


@dataclass(frozen=True, slots=True)
class GraphLimits:
    """What one graph may have at most.

    Args:
        tensor_elements: of any one value.
        constant_bytes: of one constant; larger ones are inputs, named by their hash.
        constants_bytes: of all constants together.
        encoded_bytes: of the canonical bytes.
        depth: of bodies inside of bodies; each keeps to the other limits by itself.
    """

    nodes: int = 16_384
    inputs: int = 4_096
    outputs: int = 4_096
    constants: int = 4_096
    node_inputs: int = 64
    rank: int = MAX_RANK
    tensor_elements: int = 2**40
    constant_bytes: int = MIB
    constants_bytes: int = 16 * MIB
    encoded_bytes: int = 32 * MIB
    depth: int = 4

    def inside(self) -> GraphLimits:
        """The limits of a body.

        Raises:
            GraphError: over_limit, when it is too deep.
        """
        if not self.depth:
            raise GraphError(
                "over_limit",
                where="a body",
                what="a depth of",
                value=LIMITS.depth + 1,
                limit=LIMITS.depth,
            )
        return replace(self, depth=self.depth - 1)


LIMITS: Final = GraphLimits()


def check(graph: Graph, limits: GraphLimits = LIMITS) -> None:
    """Requires a well-formed graph.

    Raises:
        GraphError: graph_malformed, over_limit, unknown_operator, or what the operators' own rules
            raise (arity_wrong, attribute_invalid, dtype_unsupported, shapes_mismatch, ...).
    """
    _check_containers(graph, limits)
    specs: list[TensorSpec] = []
    for number, spec in enumerate(graph.inputs):
        check_spec(spec, f"input {number}", limits)
        specs.append(spec)
    total_bytes = 0
    for number, constant in enumerate(graph.constants):
        _check_constant(constant, f"constant {number}", limits)
        total_bytes += len(constant.data)
        specs.append(constant.spec)
    _limit("the graph", "bytes of constants", total_bytes, limits.constants_bytes)
    used = [False] * len(specs)
    for number, node in enumerate(graph.nodes):
        _check_node(node, f"node {number}", specs, used, limits)
        specs.extend(node.outputs)
        used.extend([False] * len(node.outputs))
    for number, value in enumerate(graph.outputs):
        if type(value) is not int or not 0 <= value < len(specs):
            _bad(f"output {number}", f"value {value!r} does not exist")
        used[value] = True
    _check_used(graph, used)


def apply(
    operator: Operator,
    inputs: Sequence[TensorSpec],
    attributes: tuple[tuple[str, object], ...],
    where: str,
    limits: GraphLimits = LIMITS,
) -> tuple[TensorSpec, ...]:
    """The output specs of an operator on inputs of the given specs, within the limits; bodies among
    the attributes are checked first.

    Raises:
        GraphError: arity_wrong, over_limit, as `check` for bodies, or what the operator's `infer`
            raises.
    """
    least, most = operator.arity
    if not least <= len(inputs) <= most:
        raise GraphError(
            "arity_wrong", operator=operator.key, count=len(inputs), least=least, most=most
        )
    _limit(where, "inputs", len(inputs), limits.node_inputs)
    for _, value in attributes:
        if type(value) is Graph:
            check(value, limits.inside())
    outputs = _inferred(operator.name, operator.version, tuple(inputs), attributes)
    for spec in outputs:
        check_spec(spec, where, limits)
    return outputs


@lru_cache(maxsize=4096)
def _inferred(
    name: str,
    version: int,
    inputs: tuple[TensorSpec, ...],
    attributes: tuple[tuple[str, object], ...],
) -> tuple[TensorSpec, ...]:
    """What the operator infers. Programs apply the same operators to the same shapes again and
    again, and every rewrite checks them all; a composite is traced each time."""
    operator = registry.get(name, version)
    return operator.infer(inputs, dict(attributes))  # type: ignore[arg-type]


def check_spec(spec: TensorSpec, where: str, limits: GraphLimits = LIMITS) -> None:
    """Requires a known dtype, extents of 0 or more, and rank and count within the limits.

    An extent is within the limit of elements even where another one is 0.

    Raises:
        GraphError: graph_malformed, over_limit.
    """
    if type(spec) is not TensorSpec or type(spec.dtype) is not str or type(spec.shape) is not tuple:
        _bad(where, "it has no tensor spec")
    if spec.dtype not in DTYPES:
        _bad(where, f"the dtype {spec.dtype[:16]!r} is unknown")
    _limit(where, "rank", len(spec.shape), limits.rank)
    for extent in spec.shape:
        if type(extent) is not int or extent < 0:
            _bad(where, "an extent is not an integer of 0 or more")
        _limit(where, "an extent of", extent, limits.tensor_elements)
    _limit(where, "elements", spec.count, limits.tensor_elements)


def _check_containers(graph: Graph, limits: GraphLimits) -> None:
    if type(graph) is not Graph:
        _bad("the top", "it is not a Graph")
    for name in ("inputs", "constants", "nodes", "outputs"):
        part = getattr(graph, name)
        if type(part) is not tuple:
            _bad(name, "it is not a tuple")
        _limit("the graph", name, len(part), getattr(limits, name))
    if not graph.outputs:
        _bad("outputs", "there is none")


def _check_constant(constant: Constant, where: str, limits: GraphLimits) -> None:
    if type(constant) is not Constant or type(constant.data) is not bytes:
        _bad(where, "it is not a Constant of bytes")
    check_spec(constant.spec, where, limits)
    _limit(where, "bytes", constant.spec.nbytes, limits.constant_bytes)
    if len(constant.data) != constant.spec.nbytes:
        _bad(where, f"it has {len(constant.data)} bytes, its spec {constant.spec.nbytes}")
    if constant.spec.dtype == "bool" and constant.data.translate(None, b"\x00\x01"):
        _bad(where, "a bool is neither 0 nor 1")


def _check_node(
    node: Node, where: str, specs: list[TensorSpec], used: list[bool], limits: GraphLimits
) -> None:
    if type(node) is not Node or type(node.inputs) is not tuple or type(node.outputs) is not tuple:
        _bad(where, "it is not a Node of tuples")
    if type(node.operator) is not str or type(node.version) is not int:
        _bad(where, "its operator is not a name and a version")
    operator = registry.get(node.operator, node.version)
    check_attributes(operator, node.attributes)
    for value in node.inputs:
        if type(value) is not int or not 0 <= value < len(specs):
            _bad(where, f"it reads the value {value!r}, which is not an earlier one")
        used[value] = True
    inputs = [specs[value] for value in node.inputs]
    outputs = apply(operator, inputs, node.attributes, where, limits)
    if outputs != node.outputs:
        found = ", ".join(map(str, node.outputs[:4]))
        _bad(where, f"it declares {found}; {operator.key} gives {', '.join(map(str, outputs))}")


def _check_used(graph: Graph, used: list[bool]) -> None:
    for number in range(len(graph.constants)):
        if not used[len(graph.inputs) + number]:
            _bad(f"constant {number}", "nothing reads it")
    for number, (first, node) in enumerate(graph.numbered_nodes()):
        if not any(used[first : first + len(node.outputs)]):
            _bad(f"node {number}", "nothing reads it")


def _limit(where: str, what: str, value: int, limit: int) -> None:
    if value > limit:
        raise GraphError("over_limit", where=where, what=what, value=value, limit=limit)


def _bad(where: str, reason: str) -> NoReturn:
    raise GraphError("graph_malformed", where=where, reason=reason)
