"""The difference between two graphs, for people.

Owns: which lines count as the same in both, and the text of what is left. Must not: judge whether
two different graphs mean the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from gpugoblin.graph.ir import Graph, Node
from gpugoblin.graph.show import node_text

__all__ = ["difference"]


def difference(one: Graph, other: Graph, context: int = 2) -> str:
    """What `other` has in the place of what `one` has, as a unified diff of one line a node; empty
    where the graphs are equal.

    Nodes are compared with their operands written as distances backwards, so that one node more
    does not change all lines after it.
    """
    if one == other:
        return ""
    before, after = list(_lines(one)), list(_lines(other))
    found = difflib.unified_diff(before, after, "one graph", "the other", n=context, lineterm="")
    return "\n".join(found)


def _lines(graph: Graph) -> Iterator[str]:
    for number, spec in enumerate(graph.inputs):
        yield f"input {number} : {spec}"
    named = {number: f"input {number}" for number in range(len(graph.inputs))}
    for place, constant in enumerate(graph.constants):
        text = f"constant {constant.data[:8].hex()}{'...' if len(constant.data) > 8 else ''}"
        named[len(graph.inputs) + place] = f"{text} : {constant.spec}"
    for step, (first, node) in enumerate(graph.numbered_nodes()):
        yield f"{_text(node, step, named)} : {', '.join(map(str, node.outputs))}"
        for output in range(len(node.outputs)):
            named[first + output] = f"step {step}" + (f".{output}" if output else "")
    steps = len(graph.nodes)
    yield "return " + ", ".join(_relative(named[value], steps) for value in graph.outputs)


def _text(node: Node, step: int, named: dict[int, str]) -> str:
    text = node_text(node)
    for value in sorted(set(node.inputs), reverse=True):
        text = text.replace(f"%{value}", f"<{_relative(named[value], step)}>")
    return text


def _relative(name: str, step: int) -> str:
    if not name.startswith("step "):
        return name
    number, dot, output = name[5:].partition(".")
    return f"{step - int(number)} back{dot}{output}"
