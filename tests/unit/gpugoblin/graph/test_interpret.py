from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret, last_uses, run_nodes
from gpugoblin.graph.ir import Graph
from tests.helpers.graphs import graphs, inputs_of


def layer() -> Graph:
    """relu(x @ w + b), its row sums, and the column of each row's largest element."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (5, 8)))
    w = builder.input(TensorSpec("float32", (8, 3)))
    b = builder.input(TensorSpec("float32", (3,)))
    y = builder.add("matmul", [x, w])
    tree = FormulaBuilder()
    shifted = tree.call("add", tree.input(0), tree.input(1))
    relu = tree.build(tree.call("max", shifted, tree.const("float32", 0.0)))
    z = builder.add("formula", [y, b], tree=relu)
    sums = builder.add("reduce", [z], axes=(1,), function="sum")
    best = builder.add("reduce_arg", [z], axis=1, function="argmax")
    return builder.build([z, sums, best])


def test_a_layer_equals_plain_numpy() -> None:
    generator = np.random.default_rng(7)
    x, w, b = (
        generator.standard_normal(shape).astype(np.float32) for shape in ((5, 8), (8, 3), (3,))
    )
    z, sums, best = interpret(layer(), [x, w, b])
    expected = np.maximum(x.astype(float) @ w.astype(float) + b, 0)
    np.testing.assert_allclose(z, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(sums, expected.sum(1), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(best, expected.argmax(1))


def test_attention_equals_plain_numpy() -> None:
    builder = GraphBuilder()
    q, k, v = (builder.input(TensorSpec("float32", (2, 6, 4))) for _ in range(3))
    scores = builder.add("matmul", [q, k], transpose_b=True)
    top = builder.add("reduce", [scores], axes=(2,), function="max", keepdims=True)
    tree = FormulaBuilder()
    weights_tree = tree.build(tree.call("exp", tree.call("sub", tree.input(0), tree.input(1))))
    weights = builder.add("formula", [scores, top], tree=weights_tree)
    total = builder.add("reduce", [weights], axes=(2,), function="sum", keepdims=True)
    share = builder.add("formula", [weights, total], tree=call_formula("div"))
    graph = builder.build([builder.add("matmul", [share, v])])
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal((2, 6, 4)).astype(np.float32) for _ in range(3)]
    (result,) = interpret(graph, arrays)
    raw = np.exp(arrays[0].astype(float) @ arrays[1].transpose(0, 2, 1))
    expected = raw / raw.sum(-1, keepdims=True) @ arrays[2]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_outputs_are_contiguous_copies_in_order() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 3)))
    turned = builder.add("permute", [x], axes=(1, 0))
    graph = builder.build([turned, x, turned])
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = interpret(graph, [source])
    assert all(output.flags.c_contiguous and output.flags.owndata for output in outputs)
    assert not any(np.shares_memory(output, source) for output in outputs)
    np.testing.assert_array_equal(outputs[0], source.T)
    np.testing.assert_array_equal(outputs[1], source)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_outputs_have_the_declared_specs(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    outputs = interpret(graph, data.draw(inputs_of(graph)))
    for output, spec in zip(outputs, graph.output_specs(), strict=True):
        assert (output.dtype, output.shape) == (DTYPES[spec.dtype], spec.shape)


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        [np.zeros((5, 8), np.float32)],
        [np.zeros((5, 8)), np.zeros((8, 3), np.float32), np.zeros(3, np.float32)],
        [np.zeros((8, 5), np.float32), np.zeros((8, 3), np.float32), np.zeros(3, np.float32)],
        [np.zeros((5, 8), np.float32), np.zeros((8, 3), np.float32), np.zeros(3, np.float32)] * 2,
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    arrays: list[np.ndarray[tuple[int], np.dtype[np.float32]]],
) -> None:
    with pytest.raises(GraphError) as raised:
        interpret(layer(), arrays)
    assert raised.value.code == "graph_inputs_mismatch"


def test_values_are_dropped_after_their_last_use() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (2,)))
    for _ in range(6):
        value = builder.add("formula", [value], tree=call_formula("neg"))
    graph = builder.build([value])
    values: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = {}
    held = [len(values) for _ in run_nodes(graph, [np.ones(2, np.float32)], values)]
    assert max(held) == 2
    assert list(values) == [6]
    assert last_uses(graph) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}
