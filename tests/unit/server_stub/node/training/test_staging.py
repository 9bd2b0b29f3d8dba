"""Rounds in stages give what whole rounds give, and no task needs more than the limit."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from gpugoblin.catalog.building import call, reduced
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.ids import ArrayId
from gpugoblin.optim.adafactor import Adafactor
from gpugoblin.optim.adam import AdamW
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import words_of
from gpugoblin.plan.round_items import STEP_AFFINITY
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import ArrayRegion, Limits
from gpugoblin.wire.messages.training import (
    EvaluationSubmit,
    GraphSlot,
    NamedTensor,
    TrainingSubmit,
)
from server_stub.node.training.building import ArraySpecs, make_plan

WIDTH, ROWS, LAYERS, EXAMPLES, BATCH, STEPS = 768, 4, 10, 24, 12, 2
LIMIT = 36_000_000
RNG = np.random.default_rng(4)
DATA = [RNG.standard_normal((EXAMPLES, WIDTH)).astype(np.float32) for _ in range(2)]
SHIFT = RNG.standard_normal((WIDTH,)).astype(np.float32)
MATRICES = [
    (RNG.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32) for _ in range(LAYERS)
]
WEIGHTS = np.concatenate([one.reshape(-1) for one in MATRICES])
HELD = [one[:8] * np.float32(0.5) for one in DATA]


def deep_loss(
    rows: int, *, written: bool = False, reads: bool = False
) -> tuple[Graph, tuple[GraphSlot, ...]]:
    """tanh layers; the first matrix is also the last, and a fixed vector is added. `written`: two
    running means and a count of steps are kept. `reads`: one of the means is taken away."""
    builder = GraphBuilder()
    x, y = (builder.input(TensorSpec("float32", (rows, WIDTH))) for _ in range(2))
    matrices = [builder.input(TensorSpec("float32", (WIDTH, WIDTH))) for _ in range(LAYERS)]
    shift = builder.input(TensorSpec("float32", (WIDTH,)))
    row = TensorSpec("float32", (WIDTH,))
    means = [builder.input(row) for _ in range(2)] if written or reads else []
    count = [builder.input(TensorSpec("int64", ()))] if written else []
    value = call(builder, "add", x, shift)
    later = []
    for place, matrix in enumerate((*matrices, matrices[0])):
        value = call(builder, "tanh", builder.add("matmul", [value, matrix]))
        if written and place in (1, 8):
            own = reduced(builder, "mean", value, (0,), keepdims=False)
            later.append(call(builder, "add", means[len(later)], own))
    if reads:
        value = call(builder, "sub", value, means[1])
    if written:
        later.append(call(builder, "add", count[0], builder.constant(np.array(1, np.int64))))
    gap = call(builder, "sub", value, y)
    loss = reduced(builder, "mean", call(builder, "mul", gap, gap), (0, 1), keepdims=False)
    slots = (
        GraphSlot("data", 0), GraphSlot("data", 1),
        *(GraphSlot("parameter", 0, number * WIDTH**2) for number in range(LAYERS)),
        GraphSlot("fixed", 0),
        *(GraphSlot("buffer", 0, number * WIDTH) for number in range(len(means))),
        *(GraphSlot("count", 0) for _ in count),
    )  # fmt: skip
    return builder.build([loss, *later]), slots


def message(
    optimizer: Optimizer, clip_norm: float | None = None, *, written: bool = False
) -> TrainingSubmit:
    """`written`: with running statistics, and an evaluation after every step."""
    graph, slots = deep_loss(ROWS, written=written)
    name = ArrayId("array_aaaa")
    held = None
    if written:
        other, theirs = deep_loss(ROWS, reads=True)
        held = EvaluationSubmit(encode(other), theirs, (name, name), every=1)
    tensors = tuple(
        NamedTensor("parameter", f"layer{number}", number * WIDTH**2, (WIDTH, WIDTH))
        for number in range(LAYERS)
    )
    return TrainingSubmit(
        graph=encode(graph), slots=slots, updates=(13, 14, 15) if written else (),
        tensors=tensors, parameters=name, buffers=name if written else None,
        counts=name if written else None, state=(), steps_array=name, keys=name, data=(name, name),
        fixed=(name,), optimizer=msgspec.json.encode(words_of(optimizer)).decode(), steps=STEPS,
        batch=BATCH, micro=ROWS, clip_norm=clip_norm, seed=1, evaluation=held,
    )  # fmt: skip


def specs(limits: Limits | None) -> ArraySpecs:
    data = ("float32", (EXAMPLES, WIDTH))
    held = ("float32", HELD[0].shape)
    return ArraySpecs((data, data), (("float32", (WIDTH,)),), (held, held), limits)


def play(plan: RoundsPlan) -> tuple[list[Array], Array]:
    """Every task in order by the interpreter: the results, and what is carried of the model at the
    end, flat."""
    flat = [np.zeros(spec.shape, spec.dtype) for spec in plan.flat]
    flat[0] = WEIGHTS
    keys = np.zeros(2 * STEPS * plan.micros, np.int64)
    arrays: list[Any] = [*flat, np.arange(STEPS), keys, *DATA, SHIFT]
    arrays += HELD if plan.evaluation else []
    assert [one.shape for one in arrays] == [spec.shape for spec in plan.inputs]
    results = [np.full(spec.shape, np.nan, np.float32) for spec in plan.outputs]
    kept: dict[tuple[int, int], Array] = {}
    weights: dict[int, Array] = {}
    for index in range(plan.count):
        task = plan.task(index)
        inputs = []
        for source, spec in zip(task.inputs, task.graph.inputs, strict=True):
            if isinstance(source, ArrayRegion):
                ends = zip(source.region.start, source.region.stop, strict=True)
                box = tuple(slice(a, b) for a, b in ends)
                whole = arrays[source.array]
                found = whole[list(source.rows)] if source.rows else whole[box]
            else:
                found = kept[source.task, source.output]
            assert (found.shape, str(found.dtype)) == (spec.shape, spec.dtype)
            inputs.append(found)
        made = interpret(task.graph, inputs)
        for slot, (place, array) in enumerate(zip(task.outputs, made, strict=True)):
            if place.array is None:
                kept[index, slot] = array
            else:
                ends = zip(place.region.start, place.region.stop, strict=True)
                results[place.array][tuple(slice(a, b) for a, b in ends)] = array
        if task.affinity == STEP_AFFINITY:
            block = plan.round_tasks + (len(plan.evaluation.items) if plan.evaluation else 0)
            places = plan.steps[(index - plan.lead) % block]
            weights |= dict(zip(places, made, strict=False))
    names = [number for number, (kind, _) in enumerate(plan.parts) if kind != "state"]
    return results, np.concatenate([weights[number].reshape(-1) for number in names])


@pytest.mark.parametrize(
    ("optimizer", "clip_norm"),
    [
        (AdamW(1e-2), 1e-3),
        pytest.param(AdamW(1e-2), None, marks=pytest.mark.slow),
        pytest.param(Adafactor(1e-2), None, marks=pytest.mark.slow),
        pytest.param(Adafactor(1e-2), 1e-3, marks=pytest.mark.slow),
    ],
)
def test_the_same_curve_where_no_engine_holds_the_model(
    optimizer: Optimizer, clip_norm: float | None
) -> None:
    whole = make_plan(message(optimizer, clip_norm), specs(None))
    # Weights and gradients alone are more than an engine has.
    assert 2 * WEIGHTS.nbytes > LIMIT
    plan = make_plan(message(optimizer, clip_norm), specs(Limits(LIMIT)))
    assert plan.stages > 1
    assert plan.summary().memory_bound_bytes <= LIMIT
    found, weights = play(plan)
    expected, other = play(whole)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    # A step of Adam has the sign of a gradient even where that is next to nothing.
    assert np.abs(weights - other).max() < 1e-4


def test_running_statistics_and_evaluations_are_those_of_whole_rounds() -> None:
    given = message(SGD(1e-2), written=True)
    # No engine holds the weights for an evaluation either.
    limit = 20_000_000
    assert limit < WEIGHTS.nbytes
    plan = make_plan(given, specs(Limits(limit)))
    assert plan.stages > 1
    assert plan.evaluation is not None
    assert len(plan.evaluation.items) > plan.evaluation.parts + 1
    assert plan.summary().memory_bound_bytes <= limit
    found, ends = play(plan)
    expected, other = play(make_plan(given, specs(None)))
    for one, two in zip(found, expected, strict=True):
        assert np.isfinite(two).all()
        np.testing.assert_allclose(one, two, rtol=1e-4)
    assert ends.shape == other.shape == (WEIGHTS.size + 2 * WIDTH + 1,)
    assert ends[-1] == other[-1] == STEPS
    assert np.abs(other[-1 - 2 * WIDTH : -1]).max() > 0.1
    np.testing.assert_allclose(ends, other, atol=1e-4)


@pytest.mark.parametrize("written", [False, True])
def test_consumers_are_those_who_read(written: bool) -> None:
    plan = make_plan(message(AdamW(1e-2), written=written), specs(Limits(LIMIT)))
    readers: dict[int, list[int]] = {index: [] for index in range(plan.count)}
    for index in range(plan.count):
        for giver in plan.task(index).depends_on:
            assert giver < index
            readers[giver].append(index)
    for index in range(plan.count):
        assert list(plan.consumers(index)) == readers[index]
    assert plan.task(plan.step_task(1)).affinity == STEP_AFFINITY
    assert plan.summary().tasks == plan.count
    with pytest.raises(PlanError):
        plan.task(plan.count)
