"""The method by which a task is checked."""

from __future__ import annotations

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.cost import cost
from gpugoblin.plan.checks import choose_check, product_check_flops
from tests.helpers.programs import chain, epilogue, float32


def test_a_product_is_checked_by_projections_where_that_is_cheaper() -> None:
    for size, method in ((1024, "product"), (8, "recompute")):
        builder = GraphBuilder()
        a, b = builder.input(float32(size, size)), builder.input(float32(size, size))
        graph = builder.build([builder.add("matmul", [a, b])])
        flops = cost(graph).flops
        found, checked = choose_check(graph, flops, 1)
        assert found == method
        assert checked <= flops


def test_factors_are_multiplied_where_that_is_cheaper() -> None:
    for operator, size, method in (
        ("cholesky", 1024, "product"), ("cholesky", 100, "recompute"), ("eigh", 100, "product"),
        ("qr", 8, "recompute"),
    ):  # fmt: skip
        builder = GraphBuilder()
        a = builder.input(float32(size, size))
        graph = builder.build(list(builder.add_many(operator, [a])))
        flops = cost(graph).flops
        found, checked = choose_check(graph, flops, 1)
        assert found == method
        assert checked < flops if method == "product" else checked == flops


def test_anything_else_is_recomputed() -> None:
    for graph in (chain(300, 300), epilogue(300, 300, 300)):
        assert choose_check(graph, 12345, 1) == ("recompute", 12345)


def test_the_right_operand_is_shared() -> None:
    alone = product_check_flops("float32", 1, 100, 200, 300, 1)
    shared = product_check_flops("float32", 1, 100, 200, 300, 10)
    assert alone - shared == 2 * (alone // (2 * (100 * 200 + 100 * 300 + 200 * 300))) * 54_000
