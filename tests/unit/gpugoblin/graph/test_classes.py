from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import CLASSES, in_class
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import error_bounds


def product(*shapes: tuple[int, ...], operator: str = "matmul", **attributes: object) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", shape)) for shape in shapes]
    return builder.build([builder.add(operator, values, **attributes)])  # type: ignore[arg-type]


def drawn(graph: Graph, seed: int = 1) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(spec.shape).astype(np.float32) for spec in graph.inputs]


def rounded(values: Array, bits: int) -> Array:
    mantissa, power = np.frexp(values.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2.0**bits), power - bits)


@pytest.mark.parametrize(("name", "bits"), [("tf32", 11), ("bfloat16", 8), ("float16", 11)])
def test_operands_are_rounded_and_the_product_is_float32(name: str, bits: int) -> None:
    graph = product((5, 40), (40, 3))
    left, right = drawn(graph)
    (result,) = interpret(in_class(graph, name), [left, right])
    expected = rounded(left, bits) @ rounded(right, bits)
    np.testing.assert_allclose(result, expected, rtol=2e-7, atol=1e-9)
    assert (result != interpret(graph, [left, right])[0]).any()


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_int8_scales_rows_and_columns(turned: tuple[bool, bool]) -> None:
    shapes = [(2, 6, 5), (2, 5, 4)]
    shapes = [(s[0], s[2], s[1]) if turn else s for s, turn in zip(shapes, turned, strict=True)]
    graph = product(*shapes, transpose_a=turned[0], transpose_b=turned[1])
    inputs = drawn(graph)
    (result,) = interpret(in_class(graph, "int8"), inputs)
    left, right = (
        np.swapaxes(x, 1, 2) if turn else x for x, turn in zip(inputs, turned, strict=True)
    )
    rows = np.abs(left).max(2, keepdims=True) / 127
    columns = np.abs(right).max(1, keepdims=True) / 127
    expected = (np.rint(left / rows) @ np.rint(right / columns)) * rows * columns
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_int8_convolution_scales_examples_and_outputs() -> None:
    graph = product(
        (2, 3, 6, 5), (4, 3, 3, 3), operator="conv", stride=(1, 1), dilation=(1, 1), low=(1, 1),
        high=(1, 1), between=(0, 0),
    )  # fmt: skip
    data, kernel = drawn(graph)
    (result,) = interpret(in_class(graph, "int8"), [data, kernel])
    scale = np.abs(data).max((1, 2, 3), keepdims=True) / 127
    weights = np.abs(kernel).max((1, 2, 3), keepdims=True) / 127
    small = [np.rint(data / scale) * scale, np.rint(kernel / weights) * weights]
    (expected,) = interpret(graph, [x.astype(np.float32) for x in small])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_long_convolutions_in_int8_are_added_in_integers() -> None:
    """float32 has no odd numbers beyond 2^24, which 1,200 products of 127 and 127 pass."""
    graph = product(
        (1, 1200, 2), (1, 1200, 1), operator="conv", stride=(1,), dilation=(1,), low=(0,),
        high=(0,), between=(0,),
    )  # fmt: skip
    rounded = in_class(graph, "int8")
    convolution = next(node for node in rounded.nodes if node.operator == "conv")
    assert convolution.outputs[0].dtype == "int32"
    data, kernel = np.full((1, 1200, 2), 127, np.float32), np.full((1, 1200, 1), 127, np.float32)
    data[0, 0] = 1
    kernel[0, 0] = 1
    (result,) = interpret(rounded, [data, kernel])
    np.testing.assert_array_equal(result, np.float32(1199 * 127 * 127 + 1))


def test_zeros_and_empty_axes_stay_zeros_in_int8() -> None:
    graph = product((2, 3), (3, 2))
    zeros = [np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)]
    np.testing.assert_array_equal(interpret(in_class(graph, "int8"), zeros)[0], 0)
    graph = product((2, 0), (0, 2))
    empty = [np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32)]
    np.testing.assert_array_equal(interpret(in_class(graph, "int8"), empty)[0], 0)


def test_composites_with_products_are_rounded_inside() -> None:
    graph = product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), (), operator="attention")
    inputs = drawn(graph)
    (plain,) = interpret(graph, inputs)
    (coarse,) = interpret(in_class(graph, "bfloat16"), inputs)
    assert 1e-4 < np.abs(plain - coarse).max() < 0.05


def test_bounds_are_those_of_float32_and_finite_behind_a_rounding() -> None:
    builder = GraphBuilder()
    x, y, z = (builder.input(TensorSpec("float32", (4, 4))) for _ in range(3))
    chained = builder.add("matmul", [builder.add("matmul", [x, y]), z])
    graph = in_class(builder.build([chained]), "bfloat16")
    _, (bound,) = error_bounds(graph, drawn(graph))
    assert np.isfinite(bound).all()
    assert bound.max() < 0.1


def test_what_has_no_product_and_the_plain_classes_stay_as_they_are() -> None:
    graph = product((2, 2), (2, 2))
    assert in_class(graph, "float32") is graph
    assert in_class(graph, "exact") is graph
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (3,)))
    alone = builder.build([builder.add("gelu", [x])])
    assert in_class(alone, "bfloat16") is alone
    with pytest.raises(ValueError, match="unknown"):
        in_class(graph, "float8")
    assert len(CLASSES) == 6
