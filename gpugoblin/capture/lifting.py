"""From a graph back to lazy values: what `lower` does, undone.

Owns: that walk. Formulas are taken apart into scalar functions, so that what is written around the
graph fuses with it. Used for gradients, and for graphs that other front ends made.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import constant_value
from gpugoblin.capture.elementwise import broadcast_shape
from gpugoblin.capture.expression import CAST, LITERAL, SCALAR, Expression, Value
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["lift"]


def lift(graph: Graph, inputs: Sequence[Value], place: Place) -> list[Value]:
    """The outputs of `graph` as lazy values, with `inputs` in the place of its inputs.

    Args:
        graph: one that passes `check`.
        inputs: values of the specs of the graph's inputs.
    """
    values = list(inputs)
    values.extend(_constant(constant.array(), place) for constant in graph.constants)
    for node in graph.nodes:
        operands = [values[value] for value in node.inputs]
        values.extend(_lifted(node, operands, place))
    return [values[value] for value in graph.outputs]


def _constant(array: object, place: Place) -> Value:
    value = constant_value(array, place)  # type: ignore[arg-type]
    if value.spec.rank:
        return value
    node = Expression(LITERAL, (), value.node.specs, data=value.node.data, place=place)
    return Value(node, 0)


def _lifted(node: Node, operands: Sequence[Value], place: Place) -> list[Value]:
    attributes = node.attrs
    tree = attributes.get("tree")
    if node.operator == "formula" and isinstance(tree, Formula):
        found = _formula(tree, operands, place)
        if found.spec == node.outputs[0]:
            return [found]
    if node.operator == "cast":
        return [Value(Expression(CAST, tuple(operands), node.outputs, attributes, place=place), 0)]
    made = Expression(node.operator, tuple(operands), node.outputs, attributes, place=place)
    return [Value(made, index) for index in range(len(node.outputs))]


def _formula(tree: Formula, operands: Sequence[Value], place: Place) -> Value:
    values: list[Value] = []
    for node in tree.nodes:
        if node.function == "input":
            values.append(operands[node.value])
            continue
        if node.function == "const":
            data = const_value(node)
            spec = TensorSpec(node.dtype, ())
            values.append(Value(Expression(LITERAL, (), (spec,), data=data, place=place), 0))
            continue
        given = [values[operand] for operand in node.operands]
        shape = broadcast_shape(node.function, given, place)
        if node.function == "cast":
            spec = TensorSpec(node.dtype, shape)
            made = Expression(CAST, tuple(given), (spec,), {"dtype": node.dtype}, place=place)
        else:
            rule = SCALARS[node.function].dtype_rule([value.spec.dtype for value in given])
            spec = TensorSpec(str(rule), shape)
            made = Expression(SCALAR + node.function, tuple(given), (spec,), place=place)
        values.append(Value(made, 0))
    return values[-1]
