"""Which graphs are products."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.verify.forms import factor_form, product_form


def build(*shapes: tuple[int, ...], dtype: str = "float32") -> tuple[GraphBuilder, list[int]]:
    builder = GraphBuilder()
    return builder, [builder.input(TensorSpec(dtype, shape)) for shape in shapes]


def plain(a: tuple[int, ...], b: tuple[int, ...], **attributes: bool) -> Graph:
    builder, values = build(a, b)
    return builder.build([builder.add("matmul", values, **attributes)])


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_plain_product(ta: bool, tb: bool) -> None:
    graph = plain(
        (5, 3) if ta else (3, 5), (7, 5) if tb else (5, 7), transpose_a=ta, transpose_b=tb
    )
    form = product_form(graph)
    assert form is not None
    assert (form.left, form.right, form.carry) == (0, 1, None)
    assert (form.transpose_left, form.transpose_right) == (ta, tb)
    assert (form.rows, form.inner, form.columns) == (3, 5, 7)
    assert form.flops == 2 * 3 * 5 * 7
    left = next(form.left_matrices(np.zeros((5, 3) if ta else (3, 5))))
    right = next(form.right_matrices(np.zeros((7, 5) if tb else (5, 7))))
    assert (left.shape, right.shape) == ((3, 5), (5, 7))


def test_permute_in_front_is_a_transpose() -> None:
    builder, (a, b) = build((5, 3), (7, 5))
    swapped = builder.add("permute", [a], axes=(1, 0))
    graph = builder.build([builder.add("matmul", [swapped, b], transpose_b=True)])
    form = product_form(graph)
    assert form is not None
    assert form.transpose_left
    assert form.transpose_right


@pytest.mark.parametrize("first", [True, False])
def test_carry(first: bool) -> None:
    builder, (a, b, c) = build((3, 5), (5, 7), (3, 7))
    product = builder.add("matmul", [a, b])
    operands = [c, product] if first else [product, c]
    graph = builder.build([builder.add("formula", operands, tree=call_formula("add"))])
    form = product_form(graph)
    assert form is not None
    assert form.carry == 2


def test_one_input_may_be_both_operands_and_the_carry() -> None:
    builder, (a,) = build((4, 4))
    product = builder.add("matmul", [a, a], transpose_b=True)
    form = product_form(builder.build([product]))
    assert form is not None
    assert (form.left, form.right, form.transpose_right) == (0, 0, True)
    graph = builder.build([builder.add("formula", [product, a], tree=call_formula("add"))])
    form = product_form(graph)
    assert form is not None
    assert (form.left, form.right, form.carry) == (0, 0, 0)


def test_batch() -> None:
    form = product_form(plain((2, 4, 3, 5), (2, 4, 5, 7)))
    assert form is not None
    assert form.batch == (2, 4)
    assert form.batch_count == 8
    assert len(list(form.left_matrices(np.zeros((2, 4, 3, 5))))) == 8


def test_what_is_no_product() -> None:
    graphs = []
    builder, (a, b) = build((3, 5), (5, 7))
    product = builder.add("matmul", [a, b])
    graphs.append(builder.build([product, product]))
    graphs.append(builder.build([builder.add("formula", [product], tree=call_formula("tanh"))]))
    builder, (a, b, c) = build((3, 5), (5, 7), (3, 7))
    product = builder.add("matmul", [a, b])
    graphs.append(builder.build([builder.add("formula", [product, c], tree=call_formula("mul"))]))
    builder, (a, b, c) = build((3, 5), (5, 7), (7,))
    product = builder.add("matmul", [a, b])
    graphs.append(builder.build([builder.add("formula", [product, c], tree=call_formula("add"))]))
    builder, (a, b, _) = build((3, 5), (5, 7), (2,))
    graphs.append(builder.build([builder.add("matmul", [a, b])]))
    builder, (a,) = build((4, 4))
    graphs.append(builder.build([a]))
    builder, (a, b, c) = build((3, 5), (5, 7), (7, 2))
    graphs.append(builder.build([builder.add("matmul", [builder.add("matmul", [a, b]), c])]))
    assert [product_form(graph) for graph in graphs] == [None] * len(graphs)


def test_a_factorization_gives_all_of_its_results() -> None:
    builder, (a, b) = build((2, 4, 4), (2, 4, 3))
    graph = builder.build([builder.add("solve", [a, b])])
    form = factor_form(graph)
    assert form is not None
    assert (form.operator, form.operands, form.results) == ("solve", (0, 1), (0,))
    assert (form.batch, form.batch_count) == ((2,), 2)
    assert form.shapes == ((4, 4), (4, 3), (4, 3))
    assert form.elements == 2 * (16 + 12 + 12)

    builder, (x,) = build((6, 4))
    q, r = builder.add_many("qr", [x])
    swapped = factor_form(builder.build([r, q]))
    assert swapped is not None
    assert swapped.results == (1, 0)
    assert factor_form(builder.build([q])) is None
    assert factor_form(builder.build([q, q])) is None


def test_what_is_no_factorization() -> None:
    builder, (a,) = build((4, 4))
    half = builder.add("permute", [a], axes=(1, 0))
    assert factor_form(builder.build([builder.add("cholesky", [half])])) is None
    builder, (a,) = build((4, 4))
    assert factor_form(builder.build([builder.add("det", [a])])) is None
    assert factor_form(plain((3, 5), (5, 7))) is None
    builder, (a, _) = build((4, 4), (2, 2))
    assert factor_form(builder.build([builder.add("cholesky", [a])])) is None
