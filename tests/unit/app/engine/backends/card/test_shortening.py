from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.shortening import rounded_values, shortened
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class
from gpugoblin.graph.expand import expand
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.ir import Graph
from tests.helpers.card_graphs import graph_of

MATRICES = [np.zeros((4, 6), np.float32), np.zeros((6, 5), np.float32)]


def summary(graph: Graph) -> list[str]:
    return [f"{node.operator}:{node.outputs[0].dtype}" for node in graph.nodes]


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
def test_roundings_become_casts(form: str) -> None:
    graph = in_class(graph_of("matmul", MATRICES), form)
    assert set(rounded_values(graph).values()) == {form}
    short = shortened(expand(graph))
    assert summary(short.graph) == [f"cast:{form}", f"cast:{form}", "matmul:float32"]
    specs = short.graph.specs()
    assert [specs[value].dtype for value in short.graph.nodes[-1].inputs] == [form, form]
    assert len(short.origins) == 3


def test_stored_halves_are_read_as_they_lie() -> None:
    builder = GraphBuilder()
    given = [builder.input(TensorSpec("float16", array.shape)) for array in MATRICES]
    wide = [builder.add("cast", [value], dtype="float32") for value in given]
    graph = builder.build([builder.add("matmul", wide)])
    short = shortened(expand(graph))
    assert summary(short.graph) == ["matmul:float32"]
    assert short.graph.nodes[0].inputs == (0, 1)
    assert short.origins == (2,)


def test_what_others_read_stays() -> None:
    builder = GraphBuilder()
    given = [builder.input(TensorSpec("bfloat16", array.shape)) for array in MATRICES]
    wide = [builder.add("cast", [value], dtype="float32") for value in given]
    product = builder.add("matmul", wide)
    graph = builder.build([product, wide[0]])
    assert summary(shortened(expand(graph)).graph) == ["cast:float32", "matmul:float32"]


def test_mixed_operands_and_tf32_are_left() -> None:
    builder = GraphBuilder()
    given = [builder.input(TensorSpec("float32", array.shape)) for array in MATRICES]
    left = builder.add("formula", [given[0]], tree=call_formula("round_float16"))
    right = builder.add("formula", [given[1]], tree=call_formula("round_bfloat16"))
    graph = builder.build([builder.add("matmul", [left, right])])
    assert summary(shortened(expand(graph)).graph) == summary(graph)
    expanded = expand(in_class(graph_of("matmul", MATRICES), "tf32"))
    assert shortened(expanded) is expanded


def test_both_products_of_a_gradient_are_short() -> None:
    graph = in_class(gradient(graph_of("matmul", MATRICES), [0, 1], seeded=True), "bfloat16")
    short = shortened(expand(graph)).graph
    specs = short.specs()
    for node in short.nodes:
        if node.operator == "matmul":
            assert {specs[value].dtype for value in node.inputs} == {"bfloat16"}
