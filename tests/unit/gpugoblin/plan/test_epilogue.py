"""Products that are worth tasks of their own."""

from __future__ import annotations

from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.rewrite import expand_means
from gpugoblin.plan.epilogue import lone, product_cut, products
from gpugoblin.plan.flow import Flow
from gpugoblin.plan.tiles import TILE_COLUMNS, TILE_INNER, TILE_ROWS
from gpugoblin.verify.forms import product_form
from tests.helpers.programs import chain, covariance, elementwise, epilogue, float32, layers


def test_long_products_are_split_off_and_short_ones_are_not() -> None:
    assert len(products(Flow.of(epilogue(8192, 8192, 8192)))) == 1
    assert products(Flow.of(epilogue(8192, 64, 8192))) == ()
    assert products(Flow.of(chain(10, 10))) == ()


def test_operands_that_are_computed_are_prepared() -> None:
    first, second = products(Flow.of(layers(8192, 8192, 8192, 8192)))
    assert first.prepared == ()
    assert second.prepared == (second.operands[0],)
    (only,) = products(Flow.of(expand_means(covariance(1_000_000, 2048))))
    assert only.prepared == (only.operands[0],)
    assert only.operands[0] == only.operands[1]


def test_views_of_inputs_need_no_preparing() -> None:
    builder = GraphBuilder()
    x, w = builder.input(float32(9000, 8192)), builder.input(float32(8192, 8192))
    part = builder.add("slice", [x], start=(5, 0), stop=(8005, 8192), step=(1, 1))
    turned = builder.add("permute", [w], axes=(1, 0))
    made = elementwise(builder, "tanh", builder.add("matmul", [part, turned]))
    (found,) = products(Flow.of(builder.build([made])))
    assert found.prepared == ()


def test_other_views_do() -> None:
    builder = GraphBuilder()
    x, w = builder.input(float32(16384, 8192)), builder.input(float32(8192, 8192))
    part = builder.add("slice", [x], start=(0, 0), stop=(16384, 8192), step=(2, 1))
    made = elementwise(builder, "tanh", builder.add("matmul", [part, w]))
    (found,) = products(Flow.of(builder.build([made])))
    assert found.prepared == (found.operands[0],)


def test_a_plain_product_among_the_outputs_is_one_anyway() -> None:
    builder = GraphBuilder()
    x, w = builder.input(float32(8192, 8192)), builder.input(float32(8192, 8192))
    graph = builder.build([builder.add("matmul", [x, w]), elementwise(builder, "exp", x)])
    assert products(Flow.of(graph)) == ()


def test_the_product_alone() -> None:
    flow = Flow.of(epilogue(8192, 20000, 8192))
    (product,) = products(flow)
    alone = lone(flow, product)
    assert product_form(alone.graph) is not None
    cut = product_cut(alone, alone.graph.outputs[0], (None,))
    assert cut.extents == (8192, 8192, 20000)
    assert cut.steps == (TILE_ROWS, TILE_COLUMNS, TILE_INNER)
