"""Looking at programs, and the form in which they are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpugoblin as gg
from gpugoblin.capture.programs import normal_form, program_hash
from gpugoblin.errors import GraphError
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, error_bounds
from tests.helpers.graphs import graphs, inputs_of

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def hashed(array: gg.Array) -> str:
    return program_hash(gg.show(array).graph)


def test_looking_at_a_program() -> None:
    view = gg.show(gg.tanh(gg.array(X) @ X.T))
    assert "matmul(%0, %1" in str(view)
    assert "test_programs.py" in str(view)
    assert view.svg().startswith("<svg")


def test_composites_and_what_they_are_made_of_are_one_program() -> None:
    x: Any = gg.array(X)
    powers = gg.exp(x - gg.max(x, axis=1, keepdims=True))
    assert hashed(powers / gg.sum(powers, axis=1, keepdims=True)) == hashed(gg.softmax(x))
    assert hashed(x * gg.sigmoid(x)) == hashed(gg.nn.silu(x))
    assert hashed(x @ gg.permute_dims(x, (1, 0))) == hashed(gg.tensordot(x, x, axes=([1], [1])))
    assert hashed(gg.softmax(x)) != hashed(gg.softmax(x, axis=0))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_normal_form_means_the_same(data: st.DataObject) -> None:
    graph: Graph = data.draw(graphs())
    found = normal_form(graph)
    assert (found.inputs, found.output_specs()) == (graph.inputs, graph.output_specs())
    assert normal_form(found) == found
    inputs = data.draw(inputs_of(graph))
    try:
        exact, bounds = error_bounds(graph, inputs)
        results = interpret(found, inputs)
    except GraphError:
        with pytest.raises(GraphError):
            interpret(graph, inputs)
        return
    for result, reference, bound in zip(results, exact, bounds, strict=True):
        assert agrees(result, reference, bound).all()


def test_inputs_that_nothing_reads_stay() -> None:
    from gpugoblin.catalog.spec import TensorSpec
    from gpugoblin.graph.builder import GraphBuilder

    builder = GraphBuilder()
    builder.input(TensorSpec("float32", (3,)))
    second = builder.input(TensorSpec("int32", ()))
    assert normal_form(builder.build([second])).inputs[0].shape == (3,)
    with pytest.raises(GraphError):
        normal_form(Graph((), (), (), ()))
