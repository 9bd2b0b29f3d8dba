from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.optim.adafactor import Adafactor
from gpugoblin.optim.adam import AdamW
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer
from gpugoblin.plan.microbatches import Slot, micro_batch
from server_stub.node.training.stepping import (
    Parameter,
    Stepping,
    added,
    mean_of,
    state_specs,
    step_graph,
    sum_of,
)
from tests.helpers.trainings import SLOTS, linear_loss

MICRO = micro_batch(linear_loss(4), SLOTS)
PARAMETERS = (Parameter(0, (3,)), Parameter(3, (1,)))
RNG = np.random.default_rng(2)
WEIGHTS = RNG.standard_normal(4).astype(np.float32)
SLOPES = [RNG.standard_normal(4).astype(np.float32) for _ in range(3)]
LOSSES = [np.array([value], np.float32) for value in (1.0, 2.0, 6.0)]


def stepped(
    optimizer: Optimizer, slopes: list[Array], losses: list[Array] = LOSSES, **fields: Any
) -> tuple[Array, ...]:
    stepping = Stepping(MICRO, optimizer, PARAMETERS, 3, 3, fields.get("clip_norm"))
    state = [np.zeros(spec.shape, np.float32) for spec in state_specs(stepping)]
    given = [WEIGHTS, *state, np.array([4], np.int64), *losses, *slopes]
    return interpret(step_graph(stepping), given)


@pytest.mark.parametrize("optimizer", [SGD(0.1), Adafactor(1e-2)])
def test_a_model_of_more_tensors_than_one_node_joins(optimizer: Optimizer) -> None:
    """150 tensors: a transformer of twelve layers has as many."""
    count, builder = 150, GraphBuilder()
    x = builder.input(TensorSpec("float32", (4, 2)))
    values = [builder.input(TensorSpec("float32", (2,))) for _ in range(count)]
    total = added(builder, values)
    loss = reduced(builder, "mean", call(builder, "mul", x, total), (0, 1), keepdims=False)
    slots = [Slot("data"), *(Slot("parameter", 0, 2 * place) for place in range(count))]
    micro = micro_batch(builder.build([loss]), slots)
    given = RNG.standard_normal((4, 2)).astype(np.float32)
    weights = RNG.standard_normal(2 * count).astype(np.float32)
    one, slope = interpret(micro.graph, [weights, given])
    np.testing.assert_allclose(slope, np.tile(given.sum(0) / 8, count), rtol=1e-5)
    parameters = tuple(Parameter(2 * place, (2,)) for place in range(count))
    stepping = Stepping(micro, optimizer, parameters, 1, 1, 1.0)
    state = [np.zeros(spec.shape, np.float32) for spec in state_specs(stepping)]
    number = np.array([0], np.int64)
    after, *_, norms = interpret(step_graph(stepping), [weights, *state, number, one, slope])
    assert (np.sign(weights - after) == np.sign(slope)).all()
    np.testing.assert_allclose(norms[0], np.full(count, np.linalg.norm(slope[:2])), rtol=1e-5)


@pytest.mark.parametrize("clip_norm", [None, 0.25])
@pytest.mark.parametrize("optimizer", [SGD(0.1), AdamW(1e-2), Adafactor(1e-2)])
def test_a_step_is_that_of_the_optimizer(optimizer: Optimizer, clip_norm: float | None) -> None:
    found = stepped(optimizer, SLOPES, clip_norm=clip_norm)
    slope = (SLOPES[0] + SLOPES[1] + SLOPES[2]) / 3
    specs = [MICRO.graph.inputs[0]] if optimizer.elementwise else [
        spec for spec, slot in zip(linear_loss(4).inputs, SLOTS, strict=True)
        if slot.kind == "parameter"
    ]  # fmt: skip
    made = optimizer.step_graph(specs, clip_norm=clip_norm)
    parts = [WEIGHTS, slope] if optimizer.elementwise else [
        WEIGHTS[:3], WEIGHTS[3:], slope[:3], slope[3:]
    ]  # fmt: skip
    after = interpret(made.graph, [*parts, *made.initial(), np.array(4, np.int64)])
    whole = np.concatenate(after[: len(parts) // 2])
    np.testing.assert_allclose(found[0], whole, rtol=1e-6)
    *_, loss, norms = found
    np.testing.assert_allclose(loss, [3.0])
    np.testing.assert_allclose(norms, [[np.linalg.norm(slope[:3]), abs(slope[3])]], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_changes_nothing(bad: float) -> None:
    spoiled = SLOPES[1].copy()
    spoiled[2] = bad
    found = stepped(AdamW(1e-2), [SLOPES[0], spoiled, SLOPES[2]])
    assert np.array_equal(found[0], WEIGHTS)
    assert not found[1].any()
    assert np.isfinite(found[-1][0]).tolist() == [False, True]
    losses = [*LOSSES[:2], np.array([bad], np.float32)]
    assert np.array_equal(stepped(AdamW(1e-2), SLOPES, losses)[0], WEIGHTS)


def test_sums_and_means() -> None:
    loss, slope = interpret(sum_of(MICRO, 3), [*LOSSES, *SLOPES])
    assert loss.tolist() == [9.0]
    # The order is that of the micro-batches: bit for bit, not only nearly.
    assert np.array_equal(slope, (SLOPES[0] + SLOPES[1]) + SLOPES[2])
    (mean,) = interpret(mean_of(3), LOSSES)
    assert mean.tolist() == [3.0]
