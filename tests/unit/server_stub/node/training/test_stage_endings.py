from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.interpret import interpret
from gpugoblin.optim.sgd import SGD
from gpugoblin.plan.round_items import Source
from gpugoblin.plan.spec import Limits
from server_stub.node.training.stage_endings import (
    Ending,
    RoundItems,
    Written,
    grouped,
    write_end,
)

PAIR, LOSS, COUNT = TensorSpec("float32", (2,)), TensorSpec("float32", ()), TensorSpec("int64", ())
MICROS = 6


def ending(count: int, givers: int) -> Ending:
    """One tensor, a mean and a count that micro-batches write, and a buffer that nobody writes."""
    every = range(MICROS)
    return Ending(
        SGD(1.0), None, MICROS, (PAIR,), ("weight",),
        (tuple(Source("data", 0, micro) for micro in range(givers)),),
        tuple(Source("data", 1, micro) for micro in every), LOSS,
        (
            Written(1, PAIR, tuple(Source("data", 2, micro) for micro in every)),
            Written(2, PAIR, ()),
            Written(3, COUNT, tuple(Source("data", 3, micro) for micro in range(count))),
        ),
        4,
    )  # fmt: skip


def play(given: list[list[Array]], carried: list[Array]) -> list[Array]:
    """The carried tensors after the round."""
    made = RoundItems()
    write_end(ending(MICROS, MICROS), made, Limits(1 << 20))
    known: list[tuple[Array, ...]] = []
    after = list(carried)
    for item in made.items:
        inputs = []
        for source in item.sources:
            if source.kind == "item":
                inputs.append(known[source.number][source.slot])
            elif source.kind == "carried":
                inputs.append(carried[source.number])
            elif source.kind == "step":
                inputs.append(np.zeros(1, np.int64))
            else:
                inputs.append(given[source.number][source.slot])
        known.append(interpret(item.graph, inputs))
        for place, array in zip(item.carried, known[-1], strict=False):
            after[place] = array
    return after


def test_means_are_written_and_counts_are_the_first_ones() -> None:
    rng = np.random.default_rng(0)
    slopes, means = (rng.standard_normal((MICROS, 2)).astype(np.float32) for _ in range(2))
    losses = [np.float32(1.0)] * MICROS
    counts = [np.array(10 + micro) for micro in range(MICROS)]
    carried = [np.ones(2, np.float32), np.ones(2, np.float32), np.full(2, 7, np.float32),
               np.array(9)]  # fmt: skip
    given = [list(slopes), [np.array(one) for one in losses], list(means), counts]
    after = play(given, carried)
    np.testing.assert_allclose(after[0], 1 - slopes.mean(0), rtol=1e-5)
    np.testing.assert_allclose(after[1], means.mean(0), rtol=1e-5)
    assert (after[2].tolist(), int(after[3])) == ([7.0, 7.0], 10)
    # A loss that is no number: everything stays.
    given[1][2] = np.array(np.nan, np.float32)
    stays = play(given, carried)
    for one, two in zip(stays, carried, strict=True):
        assert np.array_equal(one, two)


def test_the_verdict_sees_more_tensors_than_one_node_joins() -> None:
    """Large tensors are stepped one by one."""
    count, made = 70, RoundItems()
    givers = tuple((Source("data", 0, place),) for place in range(count))
    loss = (Source("data", 1, 0),)
    many = Ending(
        SGD(1.0), None, 1, (PAIR,) * count, ("weight",) * count, givers, loss, LOSS, (), count
    )
    write_end(many, made, Limits(PAIR.nbytes * 16))
    (verdict,) = [item for item in made.items if item.series]
    squares = [np.array([place**2], np.float32) for place in range(count)]
    _, norms, told = interpret(verdict.graph, [np.array(1.0, np.float32), *squares])
    np.testing.assert_allclose(norms, [np.arange(count)], rtol=1e-6)
    assert told.tolist() == [1.0, 1.0]


def test_a_tensor_without_gradient_is_named() -> None:
    with pytest.raises(PlanError, match="weight"):
        write_end(ending(1, 0), RoundItems(), Limits(1 << 20))


def test_neighbors_are_grouped_within_the_limits() -> None:
    assert grouped([3, 3, 5, 9, 1, 1], 8, 2) == [[0, 1], [2], [3], [4, 5]]
