from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import GraphLimits
from gpugoblin.graph.interpret import interpret
from gpugoblin.units import MIB

VECTOR = TensorSpec("float32", (4,))


def test_unused_nodes_and_constants_are_pruned_and_inputs_are_kept() -> None:
    builder = GraphBuilder()
    builder.input(VECTOR)
    x = builder.input(VECTOR)
    builder.constant(np.ones(4, np.float32))
    builder.add("formula", [x], tree=call_formula("sin"))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("cos"))])
    assert len(graph.inputs) == 2
    assert graph.constants == ()
    assert [node.inputs for node in graph.nodes] == [(1,)]
    assert graph.outputs == (2,)


def test_the_order_of_adding_does_not_matter() -> None:
    def build(*, swapped: bool) -> object:
        builder = GraphBuilder()
        x = builder.input(VECTOR)
        functions = ["sin", "cos"]
        made = {
            name: builder.add("formula", [x], tree=call_formula(name))
            for name in (reversed(functions) if swapped else functions)
        }
        both = [made["sin"], made["cos"]]
        return builder.build([builder.add("formula", both, tree=call_formula("add"))])

    assert build(swapped=False) == build(swapped=True)


def test_equal_nodes_and_constants_are_one() -> None:
    builder = GraphBuilder()
    x = builder.input(VECTOR)
    first = builder.constant(np.ones(4, np.float32))
    assert builder.constant(np.ones(4, np.float32)) == first
    assert builder.constant(np.ones(4, np.int32)) != first
    added = builder.add("formula", [x, first], tree=call_formula("add"))
    assert builder.add("formula", [x, first], tree=call_formula("add")) == added


def test_inputs_declared_late_keep_their_order() -> None:
    builder = GraphBuilder()
    x = builder.input(VECTOR)
    y = builder.add("formula", [x], tree=call_formula("neg"))
    z = builder.input(TensorSpec("float32", ()))
    graph = builder.build([builder.add("formula", [y, z], tree=call_formula("mul"))])
    assert graph.inputs == (VECTOR, TensorSpec("float32", ()))
    assert [node.inputs for node in graph.nodes] == [(0,), (2, 1)]


def test_defaults_are_filled_in_and_attributes_sorted() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 2)))
    graph = builder.build([builder.add("matmul", [x, x], transpose_b=True)])
    assert graph.nodes[0].attributes == (("transpose_a", False), ("transpose_b", True))


def test_several_outputs_of_one_node() -> None:
    builder = GraphBuilder()
    x = builder.input(VECTOR)
    values, indices = builder.add_many("topk", [x], axis=0, k=np.int64(2))
    assert builder.spec(values) == TensorSpec("float32", (2,))
    assert builder.spec(indices) == TensorSpec("int64", (2,))
    graph = builder.build([indices])
    assert graph.outputs == (2,)
    assert graph.output_specs() == (TensorSpec("int64", (2,)),)


def test_big_endian_constants_are_stored_little_endian() -> None:
    builder = GraphBuilder()
    value = builder.constant(np.array([1, 2], ">i4"))
    graph = builder.build([value])
    assert graph.constants[0].data == np.array([1, 2], "<i4").tobytes()
    np.testing.assert_array_equal(graph.constants[0].array(), [1, 2])


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros(2, np.complex64), "dtype_unsupported"),
        (np.zeros(MIB // 4 + 1, np.float32), "over_limit"),
        (np.array("text"), "dtype_unsupported"),
    ],
)
def test_bad_constants(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]], code: str) -> None:
    with pytest.raises(GraphError) as raised:
        GraphBuilder().constant(array)
    assert raised.value.code == code


def test_bad_applications_fail_at_once() -> None:
    builder = GraphBuilder()
    x = builder.input(VECTOR)
    for operator, inputs, attributes, code in (
        ("nothing", [x], {}, "unknown_operator"),
        ("permute", [x, x], {"axes": (0,)}, "arity_wrong"),
        ("permute", [x], {}, "attribute_missing"),
        ("permute", [x], {"axes": (0,), "axis": 1}, "attribute_unknown"),
        ("permute", [x], {"axes": "0"}, "attribute_invalid"),
        ("permute", [x], {"axes": (1,)}, "attribute_invalid"),
        ("matmul", [x, x], {}, "shapes_mismatch"),
        ("permute", [99], {"axes": (0,)}, "graph_malformed"),
        ("permute", [-1], {"axes": (0,)}, "graph_malformed"),
    ):
        with pytest.raises(GraphError) as raised:
            builder.add(operator, inputs, **attributes)
        assert raised.value.code == code, operator
    with pytest.raises(GraphError, match="graph_malformed"):
        builder.build([99])
    with pytest.raises(GraphError, match="graph_malformed"):
        builder.build([])


def test_limits_are_checked_when_something_is_added() -> None:
    builder = GraphBuilder(GraphLimits(tensor_elements=10))
    with pytest.raises(GraphError, match="over_limit"):
        builder.input(TensorSpec("float32", (11,)))
    x = builder.input(TensorSpec("float32", (5,)))
    with pytest.raises(GraphError, match="over_limit"):
        builder.add("broadcast", [x], shape=(3, 5))


def test_bodies_and_their_derivatives() -> None:
    builder = GraphBuilder()
    spec = TensorSpec("float32", (3,))
    body = builder.body(
        [spec, spec], lambda inner, values: [inner.add("formula", values, tree=call_formula("mul"))]
    )
    assert body.output_specs() == (spec,)
    back = builder.derivative(body, [0, 1], [0])
    assert back.inputs == (spec, spec, spec)
    x, y, seed = (np.array(line, np.float32) for line in ([1, 2, 3], [4, 5, 6], [1, 0, 2]))
    by_x, by_y = interpret(back, [x, y, seed])
    np.testing.assert_array_equal(by_x, seed * y)
    np.testing.assert_array_equal(by_y, seed * x)
