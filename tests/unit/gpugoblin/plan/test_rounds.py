from __future__ import annotations

import msgspec
import numpy as np
import pytest

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import PlanError
from gpugoblin.graph.interpret import interpret
from gpugoblin.ids import ArrayId
from gpugoblin.plan.round_items import STEP_AFFINITY
from gpugoblin.plan.rounds import RoundsPlan
from gpugoblin.plan.spec import ArrayRegion
from gpugoblin.plan.whole_rounds import GROUP
from gpugoblin.wire.messages.training import EvaluationSubmit, TrainingSubmit
from server_stub.node.training.building import ArraySpecs, make_plan
from tests.helpers.trainings import Linear, linear_message

MODEL = Linear()
NAMED = [ArrayId("array_aaaa")] * 5
SPECS = ArraySpecs((("float32", (40, 3)), ("float32", (40,))), ())


def plan_of(model: Linear, micro: int, steps: int, specs: ArraySpecs = SPECS) -> RoundsPlan:
    return make_plan(linear_message(model, micro, steps, NAMED), specs)


def evaluated(every: int, steps: int) -> RoundsPlan:
    message: TrainingSubmit = linear_message(MODEL, 4, steps, NAMED)
    held = EvaluationSubmit(message.graph, message.slots, message.data, every)
    specs = ArraySpecs(SPECS.data, (), (("float32", (9, 3)), ("float32", (9,))))
    return make_plan(msgspec.structs.replace(message, evaluation=held), specs)


def play(plan: RoundsPlan, arrays: list[Array]) -> tuple[list[Array], Array]:
    """Every task in order by the interpreter: the results, and the last weights."""
    results = [np.full(spec.shape, np.nan, np.float32) for spec in plan.outputs]
    kept: dict[tuple[int, int], Array] = {}
    weights = arrays[0]
    for index in range(plan.count):
        task = plan.task(index)
        inputs = []
        for source, spec in zip(task.inputs, task.graph.inputs, strict=True):
            if isinstance(source, ArrayRegion):
                box = tuple(
                    slice(a, b)
                    for a, b in zip(source.region.start, source.region.stop, strict=True)
                )
                whole = arrays[source.array]
                found = whole[list(source.rows)] if source.rows else whole[box]
            else:
                assert source.task < index
                found = kept[source.task, source.output]
            assert (found.shape, str(found.dtype)) == (spec.shape, spec.dtype)
            inputs.append(found)
        made = interpret(task.graph, inputs)
        for slot, (place, array) in enumerate(zip(task.outputs, made, strict=True)):
            if place.array is None:
                kept[index, slot] = array
            else:
                box = tuple(
                    slice(a, b) for a, b in zip(place.region.start, place.region.stop, strict=True)
                )
                results[place.array][box] = array
        if task.affinity == STEP_AFFINITY:
            weights = made[0]
    return results, weights


def inputs_of(plan: RoundsPlan, steps: int) -> list[Array]:
    numbers = np.arange(steps, dtype=np.int64)
    keys = np.zeros(2 * steps * plan.micros, np.int64)
    return [np.zeros(4, np.float32), numbers, keys, *MODEL.data]


@pytest.mark.parametrize("micro", [8, 4, 1])
def test_a_plan_trains_as_plain_descent_does(micro: int) -> None:
    plan = plan_of(MODEL, micro, 12)
    results, weights = play(plan, inputs_of(plan, 12))
    losses, expected = MODEL.run(12)
    np.testing.assert_allclose(results[0], losses, rtol=2e-5, atol=1e-9)
    np.testing.assert_allclose(weights, expected, rtol=1e-4)
    assert np.isfinite(results[1]).all()


def test_many_micro_batches_are_added_in_groups() -> None:
    model = Linear(examples=80, batch=40)
    specs = ArraySpecs((("float32", (80, 3)), ("float32", (80,))), ())
    plan = plan_of(model, 1, 3, specs)
    assert plan.round_tasks == 44
    sums = [plan.task(40 + number) for number in range(3)]
    assert [len(task.inputs) for task in sums] == [2 * GROUP, 2 * GROUP, 2 * (40 % GROUP)]
    arrays = inputs_of(plan, 3)[:3]
    results, weights = play(plan, [*arrays, *model.data])
    losses, expected = model.run(3)
    np.testing.assert_allclose(results[0], losses, rtol=2e-5)
    np.testing.assert_allclose(weights, expected, rtol=1e-4)


def test_evaluations_read_the_weights_of_their_step() -> None:
    plan = evaluated(2, 5)
    x, y = MODEL.data
    results, _ = play(plan, [*inputs_of(plan, 5), x[:9], y[:9]])
    for number, steps in enumerate((2, 4)):
        _, weights = MODEL.run(steps)
        # Two parts of four; the ninth example is left out.
        gap = x[:8] @ weights[:3] + weights[3] - y[:8]
        np.testing.assert_allclose(results[2][number], (gap**2).mean(), rtol=1e-4)


@pytest.mark.parametrize("plan", [plan_of(MODEL, 2, 3), evaluated(2, 5)], ids=["plain", "held"])
def test_numbers_and_consumers_agree_with_the_tasks(plan: RoundsPlan) -> None:
    readers: dict[int, list[int]] = {index: [] for index in range(plan.count)}
    for index in range(plan.count):
        task = plan.task(index)
        assert task.index == index
        for giver in task.depends_on:
            readers[giver].append(index)
        assert [out.region.shape for out in task.outputs] == [
            spec.shape for spec in task.graph.output_specs()
        ]
    for index in range(plan.count):
        assert list(plan.consumers(index)) == readers[index]
    steps = [plan.step_task(turn) for turn in range(plan.rounds)]
    tasks = [plan.task(index) for index in range(plan.count)]
    assert [task.index for task in tasks if task.affinity == STEP_AFFINITY] == steps
    assert [plan.task(index).weight_version for index in steps] == list(range(plan.rounds))
    assert plan.summary().tasks == plan.count
    assert plan.summary().flops == sum(plan.task(index).flops for index in range(plan.count))


def test_weight_versions_count_from_the_first_run() -> None:
    message = linear_message(MODEL, 4, 3, NAMED, first_step=100)
    plan = make_plan(message, SPECS)
    versions = [plan.task(index).weight_version for index in range(plan.count)]
    assert versions == [100, 100, 100, 101, 101, 101, 102, 102, 102]
    assert plan.inputs[0] == TensorSpec("float32", (4,))


def test_a_task_that_is_not_there() -> None:
    plan = plan_of(MODEL, 4, 2)
    with pytest.raises(PlanError) as caught:
        plan.task(plan.count)
    assert caught.value.code == "plan_task_unknown"
