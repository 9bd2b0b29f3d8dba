"""A graph for people, as text: one line a node.

Owns: the text, and the names `%0`, `%1` of values that every view of a graph uses. Must not: change
a graph, or be parsed back.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpugoblin.catalog.formula import Formula
from gpugoblin.catalog.formula_build import const_value
from gpugoblin.catalog.spec import AttrValue
from gpugoblin.graph.ir import Constant, Graph, Names, Node

__all__ = ["attribute_text", "formula_text", "node_text", "show_text"]

_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_FORMULA_CHARACTERS: Final = 200


def show_text(graph: Graph, names: Names | None = None) -> str:
    """The graph, one line a value: its name, its type, how it is made, and the line that made it.

    Args:
        names: what people call things, where that is known.
    """
    known = names or Names()
    lines = []
    for number, spec in enumerate(graph.inputs):
        label = known.inputs[number] if number < len(known.inputs) else ""
        lines.append(_line(f"%{number}", str(spec), f"input {number}", label))
    for place, constant in enumerate(graph.constants):
        number = len(graph.inputs) + place
        lines.append(_line(f"%{number}", str(constant.spec), f"constant {_some(constant)}", ""))
    for first, node in graph.numbered_nodes():
        values = range(first, first + len(node.outputs))
        name = ", ".join(f"%{value}" for value in values)
        specs = ", ".join(map(str, node.outputs))
        lines.append(_line(name, specs, node_text(node), known.lines.get(first, "")))
    outputs = ", ".join(f"%{value}" for value in graph.outputs)
    return "\n".join([*lines, f"return {outputs}"])


def node_text(node: Node) -> str:
    """`matmul(%0, %1, transpose_b=True)`; a formula as the expression that it is."""
    operands = [f"%{value}" for value in node.inputs]
    tree = node.attrs.get("tree")
    if isinstance(tree, Formula):
        return formula_text(tree, operands)
    options = [f"{name}={attribute_text(value)}" for name, value in node.attributes]
    return f"{node.operator}({', '.join([*operands, *options])})"


def formula_text(tree: Formula, operands: list[str]) -> str:
    """The expression over its operands, cut where it is long."""
    texts: list[str] = []
    for node in tree.nodes:
        given = [texts[operand] for operand in node.operands]
        if node.function == "input":
            text = operands[node.value]
        elif node.function == "const":
            text = (
                f"{const_value(node).item():g}" if node.dtype != "bool" else str(bool(node.value))
            )
        elif node.function == "cast":
            text = f"{node.dtype}({_bare(given[0])})"
        elif node.function in _INFIX:
            text = f"({given[0]} {_INFIX[node.function]} {given[1]})"
        else:
            text = f"{node.function}({', '.join(map(_bare, given))})"
        texts.append(text if len(text) <= _FORMULA_CHARACTERS else f"...{len(texts)}...")
    return _bare(texts[-1])


def attribute_text(value: AttrValue) -> str:
    """As Python writes it; a formula and the body of a loop by their size."""
    if isinstance(value, Graph):
        return f"program of {len(value.nodes)}"
    return f"formula of {len(value.nodes)}" if isinstance(value, Formula) else repr(value)


def _bare(text: str) -> str:
    return text[1:-1] if _wrapped(text) else text


def _wrapped(text: str) -> bool:
    """Whether one pair of brackets is around the whole of a text."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text.startswith("(") and place == len(text) - 1
    return False


def _some(constant: Constant) -> str:
    """The first elements."""
    flat = constant.array().reshape(-1)
    shown = ", ".join(np.format_float_positional(x, 6, trim="-") if flat.dtype.kind == "f" else
                      str(x) for x in flat[:4])  # fmt: skip
    return f"[{shown}, ...]" if flat.size > 4 else f"[{shown}]"


def _line(name: str, spec: str, made: str, note: str) -> str:
    return f"{name} = {made} : {spec}" + (f"  # {note}" if note else "")
