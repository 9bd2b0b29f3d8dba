from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula import MAX_FORMULA_NODES
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.grad import backward, gradient
from gpugoblin.graph.interpret import interpret, interpret_wide
from gpugoblin.graph.ir import Graph


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def layer() -> Graph:
    """mean(tanh(x @ w + b)) over x: [5, 3], w: [3, 4], b: [4]."""
    builder = GraphBuilder()
    x, w, b = (builder.input(spec) for spec in (f32(5, 3), f32(3, 4), f32(4)))
    tree = FormulaBuilder()
    total = tree.call("add", tree.input(0), tree.input(1))
    formula = tree.build(tree.call("tanh", total))
    hidden = builder.add("formula", [builder.add("matmul", [x, w]), b], tree=formula)
    return builder.build([builder.add("reduce", [hidden], function="mean", axes=(0, 1))])


def test_loss_and_gradients_of_a_layer() -> None:
    graph = layer()
    joint = gradient(graph, [1, 2])
    check(joint)
    assert joint.inputs == graph.inputs
    assert joint.output_specs() == (f32(), f32(3, 4), f32(4))
    generator = np.random.default_rng(0)
    x, w, b = (generator.standard_normal(spec.shape) for spec in graph.inputs)
    loss, by_w, by_b = interpret_wide(joint, [x, w, b])
    hidden = np.tanh(x @ w + b)
    slope = (1 - hidden**2) / hidden.size
    np.testing.assert_allclose(loss, hidden.mean(), rtol=1e-14)
    np.testing.assert_allclose(by_w, x.T @ slope, rtol=1e-12)
    np.testing.assert_allclose(by_b, slope.sum(0), rtol=1e-12)


def test_a_hessian_times_a_vector() -> None:
    """Of sum(x^4): 12 x^2 v."""
    builder = GraphBuilder()
    x = builder.input(f32(6))
    square = builder.add("formula", [x, x], tree=call_formula("mul"))
    fourth = builder.add("formula", [square, square], tree=call_formula("mul"))
    graph = builder.build([builder.add("reduce", [fourth], function="sum", axes=(0,))])
    second = gradient(gradient(graph, [0]), [0], of=[1], seeded=True)
    at, vector = np.linspace(-1, 2, 6), np.linspace(3, 1, 6)
    _, first_order, product = interpret_wide(second, [at, vector])
    np.testing.assert_allclose(first_order, 4 * at**3, rtol=1e-12)
    np.testing.assert_allclose(product, 12 * at**2 * vector, rtol=1e-12)


def test_an_input_that_is_not_used_has_zeros_and_one_that_is_an_output_its_seed() -> None:
    builder = GraphBuilder()
    x, _ = builder.input(f32(2)), builder.input(f32(3))
    graph = builder.build([x, x])
    joint = gradient(graph, [0, 1], of=[0, 1], seeded=True)
    seeds = [np.array([1.0, 2.0], np.float32), np.array([10.0, 20.0], np.float32)]
    results = interpret(joint, [np.zeros(2, np.float32), np.zeros(3, np.float32), *seeds])
    assert results[2].tolist() == [11.0, 22.0]
    assert results[3].tolist() == [0.0] * 3


def test_steps_have_zeros() -> None:
    builder = GraphBuilder()
    x = builder.input(f32(3))
    whole = builder.add("cast", [builder.add("cast", [x], dtype="int32")], dtype="float32")
    graph = builder.build([builder.add("reduce", [whole], function="sum", axes=(0,))])
    assert interpret(gradient(graph, [0]), [np.ones(3, np.float32)])[1].tolist() == [0.0] * 3


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_products_with_zeros(count: int, zeros: int) -> None:
    builder = GraphBuilder()
    x = builder.input(f32(2, count))
    graph = builder.build([builder.add("reduce", [x], function="prod", axes=(0, 1))])
    values = np.arange(1.0, 2 * count + 1).reshape(2, count) / 2
    values.flat[:zeros] = 0
    result = interpret_wide(gradient(graph, [0]), [values])[1]
    others = [np.prod(np.delete(values.ravel(), place)) for place in range(values.size)]
    np.testing.assert_allclose(result.ravel(), others, rtol=1e-12)


def test_equal_extremes_share_the_seed() -> None:
    builder = GraphBuilder()
    x = builder.input(f32(4))
    graph = builder.build([builder.add("reduce", [x], function="max", axes=(0,))])
    values = np.array([3.0, 1.0, 3.0, 2.0], np.float32)
    assert interpret(gradient(graph, [0]), [values])[1].tolist() == [0.5, 0.0, 0.5, 0.0]


def test_a_formula_whose_derivative_is_over_the_limit_goes_step_by_step() -> None:
    tree = FormulaBuilder()
    x, y = tree.input(0), tree.input(1)
    value = x
    steps = MAX_FORMULA_NODES // 2 - 2
    for step in range(steps):
        value = tree.call("sin" if step % 2 else "mul", *((value,) if step % 2 else (value, y)))
    formula = tree.build(value)
    builder = GraphBuilder()
    operands = [builder.input(f32(3, 1)), builder.input(f32(2))]
    graph = builder.build([builder.add("formula", operands, tree=formula)])
    joint = gradient(graph, [0, 1], seeded=True)
    assert len(joint.nodes) > steps
    a, b = np.array([[0.3], [0.5], [-0.7]]), np.array([1.1, -0.9])
    _, by_a, by_b = interpret_wide(joint, [a, b, np.ones((3, 2))])
    for result, moves in ((by_a, (1e-6, 0.0)), (by_b, (0.0, 1e-6))):
        up = interpret_wide(graph, [a + moves[0], b + moves[1]])[0]
        down = interpret_wide(graph, [a - moves[0], b - moves[1]])[0]
        axis = 1 if moves[0] else 0
        slope = ((up - down) / 2e-6).sum(axis, keepdims=bool(axis))
        np.testing.assert_allclose(result, slope, rtol=1e-6, atol=1e-9)


def test_what_has_no_gradient_is_named() -> None:
    builder = GraphBuilder()
    whole = builder.input(TensorSpec("int32", (3,)))
    x = builder.input(f32(3))
    graph = builder.build([x, whole])
    with pytest.raises(GraphError, match=r"input 0 has no gradient: it is int32\[3\]"):
        gradient(graph, [0], seeded=True)
    with pytest.raises(GraphError, match="output 1 has no gradient"):
        gradient(graph, [1], of=[1], seeded=True)
    with pytest.raises(GraphError) as raised:
        gradient(graph, [1])
    assert raised.value.code == "loss_not_scalar"
    for arguments in ({"wrt": [2]}, {"wrt": [-1]}, {"wrt": [1], "of": [5]}):
        with pytest.raises(GraphError, match="graph_malformed"):
            gradient(graph, **arguments)  # type: ignore[arg-type]


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    graph = layer()
    generator = np.random.default_rng(1)
    arrays = [generator.standard_normal(spec.shape) for spec in graph.inputs]
    results = interpret_wide(gradient(graph, [0, 1, 2]), arrays)[1:]
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    torch.tanh(leaves[0] @ leaves[1] + leaves[2]).mean().backward()
    for result, leaf in zip(results, leaves, strict=True):
        np.testing.assert_allclose(result, leaf.grad.numpy(), rtol=1e-12)


def test_backward_gives_gradients_alone() -> None:
    """Of a layer, from the gradient of its result; what gets none is left out."""
    builder = GraphBuilder()
    x, w, unread = (builder.input(spec) for spec in (f32(5, 3), f32(3, 4), f32(2)))
    graph = builder.build([builder.add("matmul", [x, w]), unread])
    alone, got = backward(graph, [0, 1, 2], of=[0])
    check(alone)
    assert got == (0, 1)
    assert alone.inputs == (*graph.inputs, f32(5, 4))
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(spec.shape) for spec in alone.inputs]
    by_x, by_w = interpret_wide(alone, inputs)
    np.testing.assert_allclose(by_x, inputs[3] @ inputs[1].T, rtol=1e-12)
    np.testing.assert_allclose(by_w, inputs[0].T @ inputs[3], rtol=1e-12)


def test_backward_carries_the_gradient_of_an_input() -> None:
    """An input among the outputs: what comes from behind is where its gradient starts."""
    builder = GraphBuilder()
    x = builder.input(f32(4))
    graph = builder.build([builder.add("formula", [x, x], tree=call_formula("mul")), x])
    alone, got = backward(graph, [0], of=[0, 1])
    at, first, second = np.arange(4.0), np.full(4, 3.0), np.full(4, 100.0)
    assert got == (0,)
    np.testing.assert_allclose(interpret_wide(alone, [at, first, second])[0], 100 + 6 * at)


def test_backward_keeps_outputs_and_sows_ones() -> None:
    alone, got = backward(layer(), [1, 2], of=[], units=[0], keep=[0])
    assert got == (1, 2)
    joint = gradient(layer(), [1, 2])
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(spec.shape) for spec in joint.inputs]
    for one, other in zip(
        interpret_wide(alone, inputs), interpret_wide(joint, inputs), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_backward_refuses_a_loss_of_several_elements() -> None:
    builder = GraphBuilder()
    graph = builder.build([builder.input(f32(3))])
    with pytest.raises(GraphError) as caught:
        backward(graph, [0], of=[], units=[0])
    assert caught.value.code == "loss_not_scalar"
