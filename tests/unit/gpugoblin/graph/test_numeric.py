from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, allowed, error_bounds, tolerance
from tests.helpers.float32 import evaluate_float32
from tests.helpers.graphs import graphs, inputs_of


def product(rows: int, inner: int, columns: int) -> Graph:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (rows, inner)))
    b = builder.input(TensorSpec("float32", (inner, columns)))
    return builder.build([builder.add("matmul", [a, b])])


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_honest_results_are_never_outside(data: st.DataObject, seed: int) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    exact, bounds = error_bounds(graph, inputs)
    honest = evaluate_float32(graph, inputs, seed)
    for result, reference, bound in zip(honest, exact, bounds, strict=True):
        assert agrees(result, reference, bound).all(), (result, reference, bound)
    between = allowed(graph, inputs, honest)
    for result, other, bound in zip(
        evaluate_float32(graph, inputs, seed + 1), honest, between, strict=True
    ):
        assert agrees(result, other, bound).all(), (result, other, bound)


def test_a_constant_matrix_does_not_raise_a_false_alarm() -> None:
    # Equal terms round the same way at each addition: the worst case for sums in one chain.
    a = np.full((2, 4000), 0.1, np.float32)
    b = np.full((4000, 2), 0.1, np.float32)
    total = np.zeros((2, 2), np.float32)
    for index in range(4000):
        total += a[:, index, None] * b[None, index]
    graph = product(2, 4000, 2)
    exact, bounds = error_bounds(graph, [a, b])
    assert np.abs(total - exact[0]).max() > 1e-5
    assert agrees(total, exact[0], bounds[0]).all()


@pytest.mark.parametrize("inner", [16, 256, 2048])
def test_a_wrong_product_is_outside(inner: int) -> None:
    graph = product(8, inner, 8)
    inputs = [normal(1, 8, inner), normal(2, inner, 8)]
    honest = evaluate_float32(graph, inputs)
    (bound,) = allowed(graph, inputs, honest)
    scale = np.sqrt(inner)
    assert bound.max() < 1e-7 * inner * inner + 1e-5
    wrong = honest[0].copy()
    wrong[3, 4] += np.float32(0.02 * scale)
    assert not agrees(wrong, honest[0], bound)[3, 4]
    assert agrees(wrong, honest[0], bound).sum() == 63


def test_rounding_the_operands_to_float16_is_outside() -> None:
    graph = product(16, 64, 16)
    inputs = [normal(1, 16, 64), normal(2, 64, 16)]
    honest = evaluate_float32(graph, inputs)
    (bound,) = allowed(graph, inputs, honest)
    rounded = [array.astype(np.float16).astype(np.float32) for array in inputs]
    cheat = evaluate_float32(graph, rounded)
    assert not agrees(cheat[0], honest[0], bound).all()


def test_long_sums_stay_sharp() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (1_000_000,)))
    graph = builder.build([builder.add("reduce", [x], axes=(0,), function="sum")])
    inputs = [np.random.default_rng(0).uniform(0, 1, 1_000_000).astype(np.float32)]
    exact, bounds = error_bounds(graph, inputs)
    assert bounds[0] < 1e-4 * exact[0]
    assert agrees(np.asarray(np.sum(inputs[0])), exact[0], bounds[0])


def test_nearly_equal_elements_may_swap_and_others_may_not() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3,)))
    y = builder.input(TensorSpec("float32", (3,)))
    total = builder.add("formula", [x, y], tree=call_formula("add"))
    best = builder.add("reduce_arg", [total], axis=0, function="argmax")
    graph = builder.build([best])
    # x + y of elements 0 and 2 differ by less than the rounding of the sum.
    close = [np.array([1e8, 0, 1e8], np.float32), np.array([1, 0, 2], np.float32)]
    exact, bounds = error_bounds(graph, close)
    assert agrees(np.array(0), exact[0], bounds[0])
    assert agrees(np.array(2), exact[0], bounds[0])
    far = [np.array([1, 0, 5], np.float32), np.array([1, 0, 2], np.float32)]
    assert allowed(graph, far, interpret(graph, far)) == (np.zeros(()),)


def test_a_comparison_within_rounding_is_open_only_there() -> None:
    build = FormulaBuilder()
    third = build.call("div", build.input(0), build.const("float32", 3.0))
    tree = build.build(
        build.call("lt", build.call("mul", third, build.const("float32", 3.0)), build.input(0))
    )
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([builder.add("formula", [x], tree=tree)])
    inputs = [np.array([1.0, 7.0, 0.0, np.nan], np.float32)]
    (bound,) = allowed(graph, inputs, interpret(graph, inputs))
    assert bound[:2].tolist() == [1.0, 1.0]
    assert bound[3] == 0.0


def test_data_that_is_only_moved_must_be_equal() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4, 3)))
    graph = builder.build([builder.add("permute", [x], axes=(1, 0))])
    inputs = [normal(0, 4, 3)]
    reference = interpret(graph, inputs)
    (bound,) = allowed(graph, inputs, reference)
    wrong = reference[0].copy()
    wrong[0, 0] = np.nextafter(wrong[0, 0], np.float32(9))
    assert agrees(wrong, reference[0], bound).sum() == 11


def test_overflow_that_depends_on_the_order_is_open() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 3)))
    graph = builder.build([builder.add("reduce", [x], axes=(1,), function="sum")])
    inputs = [np.array([[3e38, 3e38, -3e38], [1.0, 2.0, 3.0]], np.float32)]
    (bound,) = allowed(graph, inputs, interpret(graph, inputs))
    assert np.isinf(bound[0])
    assert 0 < bound[1] < 1e-5


def test_an_undetermined_element_stays_so_through_products() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 2)))
    total = builder.add("formula", [x], tree=call_formula("exp"))
    doubled = builder.add("matmul", [total, total])
    graph = builder.build([doubled])
    inputs = [np.array([[88.7228, 0.0], [0.0, 0.0]], np.float32)]
    (bound,) = allowed(graph, inputs, interpret(graph, inputs))
    assert np.isinf(bound[0, 0])
    assert bound[1, 1] < 1e40


def test_tolerance_is_allowed_for_one_graph() -> None:
    graph = product(3, 4, 5)
    inputs = [normal(1, 3, 4), normal(2, 4, 5)]
    outputs = interpret(graph, inputs)
    np.testing.assert_array_equal(
        tolerance(graph)(inputs, outputs)[0], allowed(graph, inputs, outputs)[0]
    )


def test_outputs_of_another_graph_are_refused() -> None:
    graph = product(3, 4, 5)
    inputs = [normal(1, 3, 4), normal(2, 4, 5)]
    with pytest.raises(GraphError, match="graph_outputs_mismatch"):
        allowed(graph, inputs, [np.zeros((3, 4), np.float32)])


def test_agreement_treats_nan_and_infinity_as_values() -> None:
    left = np.array([np.nan, np.inf, -np.inf, 1.0, np.nan], np.float32)
    right = np.array([np.nan, np.inf, np.inf, 1.5, 0.0], np.float32)
    assert agrees(left, right, 0.5).tolist() == [True, True, False, True, False]
    assert agrees(left, right, np.full(5, np.inf)).all()
