"""From a graph back to lazy values: what `lower` does, undone.

Owns: that walk. Formulas are taken apart into scalar functions, so that what is written around the
graph fuses with it. Used for gradients, and for graphs that other front ends made.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.capture.caller import Place
from gpugoblin.capture.convert import constant_value
from gpugoblin.capture.dtypes import catalog_dtype
from gpugoblin.capture.elementwise import broadcast_shape
from gpugoblin.capture.expression import CAST, LITERAL, SCALAR, Expression, Value
from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array, AttrValue, TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["lift"]


def lift(graph: Graph, inputs: Sequence[Value], place: Place) -> list[Value]:
    """The outputs of `graph` as lazy values, with `inputs` in the place of its inputs.

    Scalar functions that several formulas compute of the same operands become one.

    Args:
        graph: one that passes `check`.
        inputs: values of the specs of the graph's inputs.
    """
    lifting = _Lifting(place)
    values = list(inputs)
    values.extend(lifting.constant(constant.array()) for constant in graph.constants)
    for node in graph.nodes:
        operands = [values[value] for value in node.inputs]
        values.extend(lifting.node(node, operands))
    return [values[value] for value in graph.outputs]


class _Lifting:
    """One walk, and the scalar functions that it has met."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: dict[object, Value] = {}

    def constant(self, array: Array) -> Value:
        if array.ndim:
            return constant_value(array, self._place)
        return self._literal(str(catalog_dtype(array.dtype, self._place, "a constant")), array)

    def node(self, node: Node, operands: Sequence[Value]) -> list[Value]:
        attributes = node.attrs
        tree = attributes.get("tree")
        if node.operator == "formula" and isinstance(tree, Formula):
            found = self._formula(tree, operands)
            if found.spec == node.outputs[0]:
                return [found]
        if node.operator == "cast":
            return [self._made(CAST, operands, node.outputs[0], str(attributes["dtype"]))]
        made = Expression(
            node.operator, tuple(operands), node.outputs, attributes, place=self._place
        )
        return [Value(made, index) for index in range(len(node.outputs))]

    def _formula(self, tree: Formula, operands: Sequence[Value]) -> Value:
        values: list[Value] = []
        for node in tree.nodes:
            if node.function == "input":
                values.append(operands[node.value])
                continue
            if node.function == "const":
                values.append(self._literal(node.dtype, const_value(node)))
                continue
            given = [values[operand] for operand in node.operands]
            shape = broadcast_shape(node.function, given, self._place)
            if node.function == "cast":
                spec = TensorSpec(node.dtype, shape)
                values.append(self._made(CAST, given, spec, node.dtype))
                continue
            rule = SCALARS[node.function].dtype_rule([value.spec.dtype for value in given])
            spec = TensorSpec(str(rule), shape)
            values.append(self._made(SCALAR + node.function, given, spec))
        return values[-1]

    def _literal(self, dtype: str, data: Array) -> Value:
        key = (LITERAL, dtype, data.tobytes())
        if key not in self._known:
            spec = TensorSpec(dtype, ())
            node = Expression(LITERAL, (), (spec,), data=data, place=self._place)
            self._known[key] = Value(node, 0)
        return self._known[key]

    def _made(
        self, operator: str, operands: Sequence[Value], spec: TensorSpec, dtype: str = ""
    ) -> Value:
        key = (operator, tuple(operands), dtype)
        if key not in self._known:
            attributes: dict[str, AttrValue] = {"dtype": dtype} if dtype else {}
            node = Expression(operator, tuple(operands), (spec,), attributes, place=self._place)
            self._known[key] = Value(node, 0)
        return self._known[key]
