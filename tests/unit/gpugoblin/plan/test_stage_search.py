"""The search for stages: estimates are corrected until what is measured fits."""

from __future__ import annotations

import pytest

from gpugoblin.errors import PlanError
from gpugoblin.graph.ir import Names
from gpugoblin.plan.cutting import Pace
from gpugoblin.plan.figures import MAX_INPUTS
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stage_search import search
from tests.helpers.stages import transformer


def test_equal_blocks_get_equal_graphs() -> None:
    program, parameters = transformer(6, 16, 8, 32)
    plan = search(program, parameters, Limits(120_000), 0, pace=None, most=99, names=Names())
    middle = [stage.backward for stage in plan.stages[1:-1]]
    assert len(set(middle)) < len(middle)


def test_deterministic() -> None:
    program, parameters = transformer(2, 16, 8, 32)
    one, other = (
        search(program, parameters, Limits(120_000), 0, pace=None, most=99, names=Names())
        for _ in range(2)
    )
    assert one.stages == other.stages


def test_no_task_has_more_inputs_than_a_message_holds() -> None:
    program, parameters = transformer(30, 4, 4, 8)
    assert len(program.inputs) > MAX_INPUTS
    plan = search(program, parameters, Limits(10**9), 0, pace=None, most=99, names=Names())
    assert len(plan.stages) > 1
    for stage in plan.stages:
        assert len(stage.backward_inputs) <= MAX_INPUTS
        assert len(stage.backward_outputs) <= MAX_INPUTS


def test_more_stages_than_are_allowed() -> None:
    program, parameters = transformer(3, 16, 8, 32)
    with pytest.raises(PlanError) as caught:
        search(program, parameters, Limits(120_000), 0, pace=Pace(1e9, 1e9), most=1, names=Names())
    assert caught.value.code == "plan_too_many_stages"


def test_a_tensor_larger_than_a_slot_is_tiled() -> None:
    program, parameters = transformer(1, 16, 64, 2048, tied=False)
    limits = Limits(10**9, slot_bytes=100_000)
    plan = search(program, parameters, limits, 0, pace=None, most=99, names=Names())
    assert plan.tiled
    for stage in plan.stages:
        for tasks in filter(None, (stage.forward_plan, stage.backward_plan)):
            for number in range(tasks.count):
                task = tasks.task(number)
                tensors = (*task.graph.inputs, *task.graph.output_specs())
                assert max(spec.nbytes for spec in tensors) <= limits.slot_bytes
