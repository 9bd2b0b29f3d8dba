from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import Array
from gpugoblin.errors import PlanError
from gpugoblin.graph.exact import interpret_exact, not_exact
from gpugoblin.graph.interpret import interpret
from gpugoblin.ids import ArrayId
from gpugoblin.optim.adam import AdamW
from gpugoblin.optim.sgd import SGD
from gpugoblin.optim.step import Optimizer
from gpugoblin.plan.arrivals import Decided
from gpugoblin.plan.microbatches import micro_batch
from gpugoblin.plan.spec import ArrayRegion
from gpugoblin.wire.messages.training import LateShards, LocalRounds
from server_stub.node.training.building import ArraySpecs, make_plan
from server_stub.node.training.local_rounds import (
    BLOCK,
    CLIP,
    LEVELS,
    Outer,
    local_graph,
    outer_graph,
)
from server_stub.node.training.stepping import Parameter, Stepping
from tests.helpers.trainings import SLOTS, Linear, linear_loss, linear_message

ROWS, STEPS, SHARDS = 2, 3, 4
MICRO = micro_batch(linear_loss(ROWS), SLOTS)
OUTER = Outer()
numbers = st.floats(-100, 100, width=32)


def stepping(optimizer: Optimizer) -> Stepping:
    return Stepping(MICRO, optimizer, (Parameter(0, (3,)), Parameter(3, (1,))), 1, 1, None)


def unpacked(levels: Array, unit: Array) -> Array:
    return (levels.astype(np.float32) * unit).reshape(-1)[:4]


def slope(w: Array, x: Array, y: Array) -> Array:
    gap = x @ w[:3] + w[3] - y
    return 2 * np.concatenate([x.T @ gap, [gap.sum()]]) / len(y)


@given(weights=st.lists(numbers, min_size=4, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_a_task_steps_as_descent_does_and_says_so_to_a_127th(
    weights: list[float], seed: int
) -> None:
    graph = local_graph(stepping(SGD(0.01)), STEPS)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((STEPS * ROWS, 3)).astype(np.float32)
    y = rng.standard_normal(STEPS * ROWS).astype(np.float32)
    first = np.array(weights, np.float32)
    loss, levels, unit = interpret(graph, [first, np.arange(STEPS), x, y])
    w, losses = first.astype(np.float64), []
    for step in range(STEPS):
        rows = slice(step * ROWS, (step + 1) * ROWS)
        losses.append(((x[rows] @ w[:3] + w[3] - y[rows]) ** 2).mean())
        w = w - 0.01 * slope(w, x[rows].astype(np.float64), y[rows])
    assert (levels.shape, str(levels.dtype), unit.shape) == ((1, BLOCK), "int8", (1, 1))
    np.testing.assert_allclose(loss[0], np.mean(losses), rtol=1e-4, atol=1e-6)
    moved = first - w
    room = np.abs(moved).max() / LEVELS * 0.51 + 1e-4
    assert np.abs(unpacked(levels, unit) - moved).max() <= room


def test_the_state_begins_anew_and_the_rate_goes_on() -> None:
    """The first step of Adam has the size of its rate, whatever the number of the round."""
    graph = local_graph(stepping(AdamW(0.01, weight_decay=0.0)), 1)
    x, y = (one[:ROWS] for one in Linear().data)
    for first in (0, 1000):
        found = interpret(graph, [np.zeros(4, np.float32), np.array([first]), x, y])
        np.testing.assert_allclose(np.abs(unpacked(*found[1:])), 0.01, rtol=2e-2)


def outer(
    given: list[Array], weights: Array, momentum: Array, losses: list[float] | None = None,
    late: int = 0,
) -> list[Array]:  # fmt: skip
    """The outer step on what shards moved by, which is a multiple of 1/127 of the largest; the last
    `late` of them are late ones."""
    local = local_graph(stepping(SGD(0.01)), STEPS)
    graph = outer_graph(stepping(SGD(0.01)), local, len(given) - late, OUTER, late)
    units = [np.full((1, 1), np.abs(one).max() / LEVELS or 1, np.float32) for one in given]
    levels = []
    for one, unit in zip(given, units, strict=True):
        table = np.zeros((1, BLOCK), np.int8)
        table[0, :4] = np.rint(one / unit[0, 0])
        levels.append(table)
    told = [np.array([one], np.float32) for one in losses or [1.0] * (len(given) - late)]
    here = len(given) - late
    rows = [*levels[:here], *units[:here], *levels[here:], *units[here:]]
    return list(interpret(graph, [weights, momentum, *told, *rows]))


@given(shards=st.integers(1, 7), seed=st.integers(0, 99), reach=st.sampled_from([1e-3, 1.0, 1e3]))
@settings(max_examples=20, deadline=None)
def test_the_outer_step_is_nesterovs_on_the_trimmed_mean(
    shards: int, seed: int, reach: float
) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(-126, 127, (shards, 4)).astype(np.float32)
    levels[:, 0] = 127
    given = [one * np.float32(reach / 127) for one in levels]
    weights, momentum = (rng.standard_normal(4).astype(np.float32) for _ in range(2))
    after, heavy, loss, norms = outer(given, weights, momentum)
    moved = np.array(given, np.float64)
    size = np.linalg.norm(moved, axis=1)
    if shards >= 3:
        middle = np.sort(size)[(shards - 1) // 2]
        moved *= np.minimum(1, CLIP * middle / size)[:, None]
    mean = moved.mean(0)
    if shards >= 5:
        mean = np.sort(moved, axis=0)[1:-1].mean(0)
    expected = OUTER.momentum * momentum + mean
    np.testing.assert_allclose(heavy, expected, rtol=1e-4, atol=1e-4 * reach)
    step = OUTER.rate * (mean + OUTER.momentum * expected)
    np.testing.assert_allclose(after, weights - step, rtol=1e-4, atol=1e-4 * reach)
    assert loss[0] == 1.0
    assert norms.shape == (1, 2)


@given(
    here=st.integers(1, 7), late=st.integers(1, 4), seed=st.integers(0, 99),
    far=st.sampled_from([1.0, 30.0]),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_late_shards_count_less_and_no_more_than_the_others_reach(
    here: int, late: int, seed: int, far: float
) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(-126, 127, (here + late, 4)).astype(np.float32)
    levels[:, 0] = 127
    levels[here:] *= np.float32(far)
    given = [one / np.float32(127) for one in levels]
    weights, momentum = (rng.standard_normal(4).astype(np.float32) for _ in range(2))
    after, heavy, loss, _ = outer(given, weights, momentum, late=late)
    moved = np.array(given, np.float64)
    size = np.linalg.norm(moved, axis=1)
    if here >= 3:
        moved *= np.minimum(1, CLIP * np.sort(size[:here])[(here - 1) // 2] / size)[:, None]
    own, other, count = moved[:here], moved[here:], here
    if here >= 5:
        other = np.clip(other, own.min(0), own.max(0))
        own, count = np.sort(own, axis=0)[1:-1], here - 2
    mean = (own.sum(0) + OUTER.late * other.sum(0)) / (count + OUTER.late * late)
    expected = OUTER.momentum * momentum + mean
    np.testing.assert_allclose(heavy, expected, rtol=1e-4, atol=1e-4 * far)
    step = OUTER.rate * (mean + OUTER.momentum * expected)
    np.testing.assert_allclose(after, weights - step, rtol=1e-4, atol=1e-4 * far)
    assert loss[0] == 1.0


@pytest.mark.slow
def test_the_largest_step_with_late_shards_is_one_task() -> None:
    given = [np.full(4, 1.0 + shard, np.float32) for shard in range(256 + 127)]
    zeros = np.zeros(4, np.float32)
    assert np.isfinite(outer(given, zeros, zeros, late=127)[0]).all()


def test_as_many_shards_as_may_be_asked_for_are_one_task() -> None:
    given = [np.full(4, 1.0 + shard, np.float32) for shard in range(256)]
    zeros = np.zeros(4, np.float32)
    _, heavy, _, _ = outer(given, zeros, zeros)
    # The middle one moved by 128: nobody by more than twice of it, and the ends are left out.
    np.testing.assert_allclose(heavy, np.full(4, np.arange(2, 256).mean()), rtol=1e-3)


def test_one_shard_that_runs_away_does_not_move_the_weights_far() -> None:
    zeros = np.zeros(4, np.float32)
    honest = [np.full(4, 1e-2, np.float32) for _ in range(4)]
    alone = outer(honest, zeros, zeros)[0]
    with_one = outer([*honest, np.full(4, -1e6, np.float32)], zeros, zeros)[0]
    assert np.abs(with_one - alone).max() <= np.abs(alone).max()


def test_a_loss_that_is_no_number_keeps_everything() -> None:
    weights, momentum = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    after, heavy, loss, _ = outer([np.ones(4, np.float32)] * 2, weights, momentum, [1.0, np.nan])
    assert np.array_equal(after, weights)
    assert np.array_equal(heavy, momentum)
    assert np.isnan(loss[0])


def message(shards: int = SHARDS, **fields: Any) -> Any:
    model = Linear(examples=48, batch=shards * STEPS * ROWS, rate=0.05)
    named = [ArrayId("array_aaaa")] * 5
    given: dict[str, Any] = {"local": LocalRounds(STEPS, shards), "numeric_class": "exact"}
    return linear_message(model, ROWS, 5, named, **{**given, **fields})


SPECS = ArraySpecs((("float32", (48, 3)), ("float32", (48,))), ())


def test_rounds_learn_every_example_once_and_have_one_result_in_class_exact() -> None:
    plan = make_plan(message(), SPECS)
    assert (plan.round_tasks, plan.count, plan.rows) == (SHARDS + 1, 5 * (SHARDS + 1), 6)
    assert [not_exact(graph) for graph in plan.graphs()] == [None, None]
    x, y = Linear(examples=48).data
    arrays: list[Any] = [np.zeros(4, np.float32), np.zeros(4, np.float32), np.arange(15),
                         np.zeros(plan.inputs[3].shape, np.int64), x, y]  # fmt: skip
    assert [one.shape for one in arrays] == [spec.shape for spec in plan.inputs]
    kept: dict[tuple[int, int], Array] = {}
    losses, read = [], []
    for index in range(plan.count):
        task = plan.task(index)
        inputs = []
        for source in task.inputs:
            if isinstance(source, ArrayRegion):
                box = tuple(slice(*ends) for ends in
                            zip(source.region.start, source.region.stop, strict=True))  # fmt: skip
                whole = arrays[source.array]
                inputs.append(whole[list(source.rows)] if source.rows else whole[box])
                read += source.rows if source.array == 4 else ()
            else:
                inputs.append(kept[source.task, source.output])
        made = interpret_exact(task.graph, inputs)
        again = interpret_exact(task.graph, inputs)
        assert [one.tobytes() for one in made] == [one.tobytes() for one in again]
        for slot, array in enumerate(made):
            kept[index, slot] = array
        if index % plan.round_tasks == SHARDS:
            losses.append(float(made[2][0]))
            assert task.weight_version == index // plan.round_tasks
    assert losses[-1] < losses[0] / 10
    assert sorted(read[:48]) == list(range(48))


def test_steps_with_late_shards_are_exact_and_fit_the_plans_bound() -> None:
    late = LateShards(2, 0.5, ("1101", "0111", "1111", "1100", "1111"))
    plan = make_plan(message(local=LocalRounds(STEPS, SHARDS, late=late)), SPECS)
    assert plan.lateness is not None
    assert [not_exact(graph) for graph in plan.graphs()] == [None] * 3
    most = plan.summary().memory_bound_bytes
    masks = dict(enumerate(late.record))
    found = Decided(plan, masks, 0)
    assert found.count == plan.count == 5 * (SHARDS + 1)
    for turn, mask in masks.items():
        task = found.task(plan.step_task(turn))
        assert task.memory_bound_bytes <= most
        assert task.weight_version == turn
        behind = [shard for shard in range(SHARDS) if turn and masks[turn - 1][shard] == "0"]
        first = plan.first_task(turn)
        read = {first + shard for shard in range(SHARDS) if mask[shard] == "1"}
        read |= {plan.first_task(turn - 1) + shard for shard in behind} if turn else set()
        # Weights and momentum of the step before.
        assert set(task.depends_on) == read | ({first - 1} if turn else set())
        assert len(task.inputs) == 2 + 3 * mask.count("1") + 2 * len(behind)


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (LateShards(5), "a quorum of 5 of 4 shards"),
        (LateShards(2, 0.5, ("1111",)), "1 rounds, the training 5"),
        (LateShards(3, 0.5, ("1100", *["1111"] * 4)), "3 to 4 shards in time"),
        (LateShards(2, 0.5, ("11111", *["1111"] * 4)), "2 to 4 shards in time"),
        (LateShards(2, 0.5, (*["1111"] * 4, "1110")), "last round"),
    ],
)
def test_late_shards_that_cannot_be_are_refused(late: LateShards, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(message(local=LocalRounds(STEPS, SHARDS, late=late)), SPECS)
    assert caught.value.code == "training_malformed"
    assert told in caught.value.what


def test_a_batch_is_that_of_a_round() -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(message(batch=16), SPECS)
    assert caught.value.code == "batch_not_divisible"


@pytest.mark.parametrize("steps", [700, 1024])
def test_more_steps_than_one_task_has_room_for_are_refused(steps: int) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(message(1, local=LocalRounds(steps, 1), batch=steps * ROWS), SPECS)
    assert caught.value.code == "local_steps_too_many"
    most = int(caught.value.next_step.split("about ")[1].split()[0])
    assert 100 < most < steps


def test_blocks_that_are_all_zeros_stay_so() -> None:
    x = np.zeros((STEPS * ROWS, 3), np.float32)
    y = np.zeros(STEPS * ROWS, np.float32)
    graph = local_graph(stepping(SGD(0.01)), STEPS)
    loss, levels, unit = interpret(graph, [np.zeros(4, np.float32), np.arange(STEPS), x, y])
    assert (loss[0], unit[0, 0]) == (0.0, 1.0)
    assert not levels.any()
