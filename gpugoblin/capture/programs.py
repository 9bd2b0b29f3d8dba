"""Programs as graphs: `gg.show`, and the form in which programs are compared.

Owns: both. Two programs that say the same in different front ends, or in different ways, mostly
have one normal form; it is for comparing and naming, while jobs run the graph as it was written, so
that a backend still sees an attention as an attention. Must not: submit anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.capture.array import Array
from gpugoblin.capture.caller import NOWHERE
from gpugoblin.capture.convert import source_value
from gpugoblin.capture.expression import Value
from gpugoblin.capture.lifting import lift
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import NodeSource
from gpugoblin.catalog.spec import AttrValue
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.canonical import canonicalise
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node, View
from gpugoblin.graph.rewrite import expand_means, rebuild
from gpugoblin.graph.serialize import graph_hash
from gpugoblin.ids import GraphHash

__all__ = ["normal_form", "program_hash", "show"]

_MOST_PASSES: Final = 4


def show(*arrays: Array) -> View:
    """The graph that computes lazy arrays, to look at: `print(gg.show(y))`, or as the last line of
    a notebook's cell. `.graph` is the graph itself, `.svg()` the text of a picture."""
    made = lower([array.value for array in arrays])
    return View(made.graph, made.names)


def normal_form(program: Graph) -> Graph:
    """One graph for programs that mean the same: composites are taken apart, scalar functions fuse
    by one rule whoever wrote them, and the rest is `canonicalise`.

    The results are the same within the error bounds of the graph, not in every bit: functions that
    fuse round once.

    Raises:
        GraphError: as `canonicalise`.
    """
    plain = expand_means(canonicalise(expand(program).graph))
    whole = canonicalise(rebuild(canonicalise(plain), _untransposed))
    for _ in range(_MOST_PASSES):
        found = _fused(whole)
        if found == whole:
            break
        whole = found
    return whole


def _fused(program: Graph) -> Graph:
    inputs = [
        source_value(NodeSource("", "", spec, f"stand-in {number}"))
        for number, spec in enumerate(program.inputs)
    ]
    return canonicalise(_lowered(lift(program, inputs, NOWHERE), inputs))


def program_hash(program: Graph) -> GraphHash:
    """The hash of the normal form: equal for programs that say the same in different ways.

    Raises:
        GraphError: as `normal_form`.
    """
    return graph_hash(normal_form(program))


def _lowered(outputs: Sequence[Value], inputs: Sequence[Value]) -> Graph:
    """The graph of `outputs` with all of `inputs` in order, used or not."""
    made = lower(outputs)
    places = {value.node.source: number for number, value in enumerate(inputs)}
    order = [places[source] for source in made.sources]
    builder = GraphBuilder()
    values = [builder.input(value.spec) for value in inputs]
    numbers = [values[number] for number in order]
    numbers.extend(builder.constant(constant.array()) for constant in made.graph.constants)
    for node in made.graph.nodes:
        operands = [numbers[value] for value in node.inputs]
        numbers.extend(builder.apply(node.operator, node.version, operands, dict(node.attributes)))
    return builder.build([numbers[value] for value in made.graph.outputs])


def _untransposed(
    builder: GraphBuilder, node: Node, operands: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Products read an operand turned in place rather than a turned copy."""
    if node.operator != "matmul":
        return None
    attributes: dict[str, AttrValue] = node.attrs
    read = list(operands)
    for number, name in enumerate(("transpose_a", "transpose_b")):
        source = builder.source(read[number])
        rank = builder.spec(read[number]).rank
        last = (*range(rank - 2), rank - 1, rank - 2)
        if not isinstance(source, Node) or source.operator != "permute":
            continue
        if source.attrs["axes"] == last:
            read[number] = source.inputs[0]
            attributes[name] = not attributes[name]
    given: dict[str, object] = dict(attributes)
    return builder.apply("matmul", node.version, tuple(read), given)
