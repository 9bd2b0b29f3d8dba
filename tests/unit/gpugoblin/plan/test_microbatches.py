from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.microbatches import Slot, loss_graph, micro_batch
from tests.helpers.trainings import SLOTS, Linear, linear_loss


def test_the_gradient_is_that_of_the_formula() -> None:
    model = Linear()
    x, y = (one[:8] for one in model.data)
    found = micro_batch(linear_loss(8), SLOTS)
    weights = np.array([0.5, -0.5, 1.0, 0.1], np.float32)
    loss, slope = interpret(found.graph, [weights, x, y])
    gap = x @ weights[:3] + weights[3] - y
    np.testing.assert_allclose(loss, [(gap**2).mean()], rtol=1e-6)
    np.testing.assert_allclose(slope, 2 * np.append(x.T @ gap, gap.sum()) / 8, rtol=1e-5)
    assert (found.carried, found.data, found.keyed, found.rows) == (("parameter",), 2, False, 8)


def shared() -> tuple[Graph, list[Slot]]:
    """The sum of (a * b) where a and b are one tensor, beside a running buffer and a count."""
    builder = GraphBuilder()
    spec = TensorSpec("float32", (2,))
    a, b, x, kept = (builder.input(spec) for _ in range(4))
    count = builder.input(TensorSpec("int64", ()))
    fixed = builder.input(spec)
    product = call(builder, "mul", call(builder, "mul", a, b), fixed)
    loss = reduced(builder, "sum", call(builder, "mul", product, x), (0,), keepdims=False)
    running = call(builder, "add", kept, x)
    more = call(builder, "add", count, builder.constant(np.array(1, np.int64)))
    slots = [
        Slot("parameter", 0, 0), Slot("parameter", 0, 0), Slot("data", 0), Slot("buffer", 0, 0),
        Slot("count", 0, 0), Slot("fixed", 0, 0),
    ]  # fmt: skip
    return builder.build([loss, running, more]), slots


def test_tied_tensors_get_one_gradient_and_buffers_are_carried() -> None:
    graph, slots = shared()
    found = micro_batch(graph, slots, (3, 4))
    assert found.carried == ("parameter", "buffer", "count")
    weights, buffer = np.array([3.0, 5.0], np.float32), np.array([1.0, 1.0], np.float32)
    x, fixed = np.array([1.0, 10.0], np.float32), np.array([2.0, 1.0], np.float32)
    loss, slope, running, count = interpret(
        found.graph, [weights, buffer, np.array([7], np.int64), x, fixed]
    )
    assert loss.tolist() == [18.0 + 250.0]
    assert slope.tolist() == [12.0, 100.0]
    assert running.tolist() == [2.0, 11.0]
    assert count.tolist() == [8]


def test_the_loss_alone() -> None:
    x, y = (one[:4] for one in Linear().data)
    found = loss_graph(linear_loss(4), SLOTS)
    (loss,) = interpret(found.graph, [np.zeros(4, np.float32), x, y])
    np.testing.assert_allclose(loss, [(y**2).mean()], rtol=1e-6)


@pytest.mark.parametrize(
    ("slots", "code"),
    [
        (SLOTS[:3], "training_malformed"),
        ((*SLOTS[:2], Slot("fixed"), Slot("fixed", 0, 3)), "nothing_trainable"),
        ((Slot("data", 1), Slot("data", 2), *SLOTS[2:]), "training_malformed"),
        ((*SLOTS[:3], Slot("parameter", 0, 4)), "training_malformed"),
        ((*SLOTS[:3], Slot("count")), "training_malformed"),
    ],
)
def test_slots_that_do_not_describe_the_loss(slots: tuple[Slot, ...], code: str) -> None:
    with pytest.raises(PlanError) as caught:
        micro_batch(linear_loss(4), slots)
    assert caught.value.code == code


def test_a_loss_of_many_numbers() -> None:
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (2,))) for _ in range(2)]
    graph = builder.build([call(builder, "mul", *values)])
    with pytest.raises(PlanError) as caught:
        micro_batch(graph, [Slot("parameter"), Slot("data")])
    assert caught.value.code == "loss_not_one_number"
