"""The difference of two graphs is the difference, and not what follows from numbering."""

from __future__ import annotations

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.compare import difference
from gpugoblin.graph.ir import Graph


def chain(*functions: str) -> Graph:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2,)))
    for function in functions:
        value = builder.add("formula", [value], tree=call_formula(function))
    return builder.build([value])


def test_equal_graphs() -> None:
    assert difference(chain("exp"), chain("exp")) == ""


def test_one_node_more_is_one_line() -> None:
    text = difference(chain("exp", "sin", "cos"), chain("exp", "tanh", "sin", "cos"))
    changed = [line for line in text.splitlines()[2:] if line[0] in "+-"]
    assert changed == ["+tanh(<1 back>) : float32[2]"]
