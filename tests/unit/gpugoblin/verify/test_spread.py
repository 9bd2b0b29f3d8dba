"""Measured tolerances: any honest order of summation fits, no lie of a hundredth does."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.microbatches import Slot, micro_batch
from gpugoblin.verify import spread
from gpugoblin.verify.spread import (
    LARGEST,
    blocks_of,
    excess,
    is_close_to,
    measure,
    usable,
    widened,
)
from tests.helpers.float32 import evaluate_float32

ROWS, WIDTH, HIDDEN = 16, 24, 64
COUNT = WIDTH * HIDDEN + HIDDEN


def network() -> Graph:
    """Loss and flat gradient of two layers with a kink between them."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (ROWS, WIDTH)))
    y = builder.input(TensorSpec("float32", (ROWS, 1)))
    first = builder.input(TensorSpec("float32", (WIDTH, HIDDEN)))
    second = builder.input(TensorSpec("float32", (HIDDEN, 1)))
    inner = builder.add("matmul", [x, first])
    inner = call(builder, "max", inner, call(builder, "tanh", inner))
    gap = call(builder, "sub", builder.add("matmul", [inner, second]), y)
    squares = call(builder, "mul", gap, gap)
    loss = builder.build([reduced(builder, "mean", squares, (0, 1), keepdims=False)])
    slots = [Slot("data", 0), Slot("data", 1), Slot("parameter", 0, 0),
             Slot("parameter", 0, WIDTH * HIDDEN)]  # fmt: skip
    return micro_batch(loss, slots, ()).graph


def inputs_of(seed: int) -> list[Array]:
    random = np.random.default_rng(seed)
    made = [random.standard_normal(shape) for shape in ((COUNT,), (ROWS, WIDTH), (ROWS, 1))]
    made[0] *= 0.2
    return [one.astype(np.float32) for one in made]


def honest(graph: Graph, inputs: list[Array], order: int) -> list[Array]:
    return evaluate_float32(graph, inputs, order)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_honest_orders_fit_with_room(seed: int) -> None:
    graph, inputs = network(), inputs_of(seed)
    own = honest(graph, inputs, 0)
    found = measure(graph, inputs, own)
    assert found == measure(graph, inputs, own)
    assert [len(output) for output in found] == [1, len(blocks_of(COUNT))]
    for order in range(1, 8):
        assert excess(found, own, honest(graph, inputs, order)) < 0.5
    assert max(found[1]) < LARGEST


def element(out: Array) -> None:
    out[COUNT // 3] += np.float32(1e-2) * np.sqrt(np.mean(out**2))


def row_sign(out: Array) -> None:
    out[:HIDDEN] *= -1


def all_wrong(out: Array) -> None:
    out[:] = np.random.default_rng(3).standard_normal(COUNT)


def nan(out: Array) -> None:
    out[5] = np.nan


def infinity(out: Array) -> None:
    out[-1] = np.inf


def half(out: Array) -> None:
    out *= np.float32(0.99)


@pytest.mark.parametrize("spoil", [element, row_sign, all_wrong, nan, infinity, half])
def test_no_lie_fits(spoil: Callable[[Array], None]) -> None:
    graph, inputs = network(), inputs_of(4)
    own = honest(graph, inputs, 0)
    found = measure(graph, inputs, own)
    theirs = honest(graph, inputs, 1)
    spoil(theirs[1])
    assert excess(usable(found), own, theirs) > 2


def test_the_tolerance_of_one_batch_fits_others() -> None:
    graph = network()
    known = measure(graph, inputs_of(5), honest(graph, inputs_of(5), 0))
    shares = []
    for seed in range(6, 16):
        inputs = inputs_of(seed)
        shares.append(excess(known, honest(graph, inputs, 0), honest(graph, inputs, 1)))
    assert max(shares) < 1


def test_an_edge_within_rounding_is_seen() -> None:
    """Where a comparison can fall either way, everything behind it is as far apart as both ways."""
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (1, 64)))
    b = builder.input(TensorSpec("float32", (64, 1)))
    total = builder.add("matmul", [a, b])
    flag = builder.add("cast", [builder.add("formula", [total], tree=call_formula("sign"))],
                       dtype="float32")  # fmt: skip
    graph = builder.build([flag])
    random = np.random.default_rng(0)
    left = random.standard_normal((1, 64)).astype(np.float32)
    near = np.concatenate((left[0, :32], -left[0, :32])).astype(np.float32)
    near_input = [np.concatenate((left[:, 32:], left[:, 32:]), axis=1), near[:, None]]
    far_input = [left, left.T.copy()]
    assert measure(graph, far_input, [np.ones((1, 1), np.float32)])[0][0] < 1e-5
    ways = measure(graph, near_input, [np.ones((1, 1), np.float32)])[0][0]
    assert ways > 1


def test_blocks() -> None:
    assert blocks_of(1).tolist() == [0]
    assert blocks_of(127).tolist() == [0]
    assert blocks_of(130).tolist() == [0, 65]
    assert len(blocks_of(10**6)) == 64
    # A tensor that is a thousand times smaller than its neighbors excuses nothing by their size.
    own = [np.concatenate((np.ones(640), np.full(640, 1e-3))).astype(np.float32)]
    wrong = [own[0].copy()]
    wrong[0][1000] *= np.float32(1.01)
    tolerance = ((1e-4,) * len(blocks_of(1280)),)
    assert excess(tolerance, own, wrong) > 50


def test_widened_and_usable() -> None:
    assert widened(((1.0, 2.0),), ((2.0, 1.0),)) == ((2.0, 2.0),)
    assert widened((), ((2.0,),)) == ((2.0,),)
    assert widened(((1.0,),), ((2.0, 1.0),)) == ((2.0, 1.0),)
    assert usable(((1.0, 1e-6, math.inf),)) == ((LARGEST, 1e-6, LARGEST),)


def test_a_tolerance_of_other_outputs_excuses_nothing() -> None:
    own = [np.ones(3, np.float32), np.arange(3)]
    assert excess(((1e-3,), ()), own, [one.copy() for one in own]) == 0
    assert excess((), own, own) == math.inf
    assert excess(((1e-3, 1e-3), ()), own, [own[0] * 2, own[1]]) == math.inf
    assert excess(((1e-3,), ()), own, [own[0], own[1] + 1]) == math.inf


def test_zero_and_empty_outputs() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (0, 4)))
    y = builder.input(TensorSpec("float32", (200,)))
    graph = builder.build([call(builder, "add", x, x), call(builder, "mul", y, y)])
    inputs = [np.zeros((0, 4), np.float32), np.zeros(200, np.float32)]
    own = list(inputs)
    found = measure(graph, inputs, own)
    assert excess(usable(found), own, [one.copy() for one in own]) == 0
    other = [own[0], own[1].copy()]
    other[1][3] = 1e-30
    assert excess(usable(found), own, other) == math.inf
    assert spread.SAFETY > 1


def test_a_bound_is_close_only_where_it_is_small_beside_its_own_block() -> None:
    output = np.concatenate((np.ones(640), np.full(640, 1e-3))).astype(np.float32)
    assert is_close_to(output, np.float64(1e-6))
    assert not is_close_to(output, np.float64(1e-4))
    assert is_close_to(output, 1e-3 * output.astype(np.float64))
    assert not is_close_to(output, np.where(np.arange(1280) == 7, np.inf, 0.0))
    assert is_close_to(np.zeros((0, 3), np.float32), np.float64(1))
    assert is_close_to(np.arange(3), np.float64(1))


def test_it_is_measured_without_any_result_too() -> None:
    graph, inputs = network(), inputs_of(1)
    alone = measure(graph, inputs, None)
    assert [len(output) for output in alone] == [1, len(blocks_of(COUNT))]
    lie = [one * np.float32(1.001) for one in honest(graph, inputs, 0)]
    assert max(measure(graph, inputs, lie)[1]) > 2 * max(alone[1])
    assert excess(alone, honest(graph, inputs, 0), honest(graph, inputs, 1)) < 0.5


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_numbers_whose_squares_are_none(size: float) -> None:
    own = np.full(640, size)
    wrong, near = own.copy(), own * (1 + 1e-5)
    wrong[5] *= 1.01
    tolerance = ((1e-4,) * len(blocks_of(640)),)
    assert 50 < excess(tolerance, [own], [wrong]) < math.inf
    assert excess(tolerance, [own], [near]) < 1
    assert not is_close_to(own, np.where(np.arange(640) == 7, np.inf, 0.0))


def test_no_result_makes_room_for_itself() -> None:
    honest_one = np.ones(640)
    tolerance = ((1e-4,) * len(blocks_of(640)),)
    for large in (1e3, 1e200):
        lie = honest_one.copy()
        lie[3] = large
        lie[4] = 0
        for one, other in ((lie, honest_one), (honest_one, lie)):
            assert excess(tolerance, [one], [other]) > large * 5e3


def test_what_may_be_flushed_to_zero_is_equal() -> None:
    own = np.full(64, 1e-40, np.float32)
    assert excess(((1e-4,),), [own], [np.zeros(64, np.float32)]) == 0
    small = np.full(64, 1e-37, np.float32)
    assert excess(((1e-4,),), [small], [np.zeros(64, np.float32)]) == math.inf
    wide = np.full(64, 1e-100)
    assert excess(((1e-4,),), [wide], [np.zeros(64)]) == math.inf
