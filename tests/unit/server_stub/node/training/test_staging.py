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
from gpugoblin.optim.step import Optimizer
from gpugoblin.optim.words import words_of
from gpugoblin.plan.round_items import STEP_AFFINITY
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import ArrayRegion, Limits
from gpugoblin.wire.messages.training import GraphSlot, NamedTensor, TrainingSubmit
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


def deep_loss(rows: int) -> tuple[Graph, tuple[GraphSlot, ...]]:
    """tanh layers; the first matrix is also the last, and a fixed vector is added."""
    builder = GraphBuilder()
    x, y = (builder.input(TensorSpec("float32", (rows, WIDTH))) for _ in range(2))
    matrices = [builder.input(TensorSpec("float32", (WIDTH, WIDTH))) for _ in range(LAYERS)]
    shift = builder.input(TensorSpec("float32", (WIDTH,)))
    value = call(builder, "add", x, shift)
    for matrix in (*matrices, matrices[0]):
        value = call(builder, "tanh", builder.add("matmul", [value, matrix]))
    gap = call(builder, "sub", value, y)
    loss = reduced(builder, "mean", call(builder, "mul", gap, gap), (0, 1), keepdims=False)
    slots = (
        GraphSlot("data", 0), GraphSlot("data", 1),
        *(GraphSlot("parameter", 0, number * WIDTH**2) for number in range(LAYERS)),
        GraphSlot("fixed", 0),
    )  # fmt: skip
    return builder.build([loss]), slots


def message(optimizer: Optimizer, clip_norm: float | None = None) -> TrainingSubmit:
    graph, slots = deep_loss(ROWS)
    name = ArrayId("array_aaaa")
    tensors = tuple(
        NamedTensor("parameter", f"layer{number}", number * WIDTH**2, (WIDTH, WIDTH))
        for number in range(LAYERS)
    )
    return TrainingSubmit(
        graph=encode(graph), slots=slots, updates=(), tensors=tensors, parameters=name,
        buffers=None, counts=None, state=(), steps_array=name, keys=name, data=(name, name),
        fixed=(name,), optimizer=msgspec.json.encode(words_of(optimizer)).decode(), steps=STEPS,
        batch=BATCH, micro=ROWS, clip_norm=clip_norm, seed=1,
    )  # fmt: skip


def specs(limits: Limits | None) -> ArraySpecs:
    data = ("float32", (EXAMPLES, WIDTH))
    return ArraySpecs((data, data), (("float32", (WIDTH,)),), (), limits)


def play(plan: RoundsPlan) -> tuple[list[Array], Array]:
    """Every task in order by the interpreter: the results, and the last weights, flat."""
    flat = [np.zeros(spec.shape, np.float32) for spec in plan.flat]
    flat[0] = WEIGHTS
    keys = np.zeros(2 * STEPS * plan.micros, np.int64)
    arrays: list[Any] = [*flat, np.arange(STEPS), keys, *DATA, SHIFT]
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
            places = plan.steps[(index - plan.lead) % plan.round_tasks]
            weights |= dict(zip(places, made, strict=False))
    names = [number for number, (kind, _) in enumerate(plan.parts) if kind == "parameter"]
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


def test_consumers_are_those_who_read() -> None:
    plan = make_plan(message(AdamW(1e-2)), specs(Limits(LIMIT)))
    readers: dict[int, list[int]] = {index: [] for index in range(plan.count)}
    for index in range(plan.count):
        for giver in plan.task(index).depends_on:
            assert giver < index
            readers[giver].append(index)
    for index in range(plan.count):
        assert list(plan.consumers(index)) == readers[index]
    assert plan.step_task(1) == plan.first_task(2) - 1
    assert plan.summary().tasks == plan.count
    with pytest.raises(PlanError):
        plan.task(plan.count)
