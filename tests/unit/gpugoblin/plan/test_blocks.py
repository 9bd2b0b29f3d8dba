"""Plans of several stages."""

from __future__ import annotations

import pytest

from gpugoblin.errors import PlanError
from gpugoblin.plan.blocks import BlockPlan
from gpugoblin.plan.blockwise import plan_blocks
from gpugoblin.plan.spec import Limits
from gpugoblin.units import MIB
from tests.helpers.plans import require_rules
from tests.helpers.programs import chain, variance


def test_tasks_count_over_all_stages() -> None:
    plan = plan_blocks(variance((0,), 4000, 30), Limits(60_000))
    assert isinstance(plan, BlockPlan)
    assert plan.count == sum(stage.count for stage in plan.stages)
    assert [plan.task(stage.first).index for stage in plan.stages] == [
        stage.first for stage in plan.stages
    ]
    require_rules(plan, Limits(60_000))


@pytest.mark.parametrize("index", [-1, 10**9])
def test_there_is_no_task_beyond(index: int) -> None:
    plan = plan_blocks(variance((0,), 4000, 30), Limits(60_000))
    for ask in (plan.task, plan.consumers):
        with pytest.raises(PlanError) as caught:
            ask(index)
        assert caught.value.code == "plan_task_unknown"


def test_a_million_tasks_cost_nothing_before_they_are_needed() -> None:
    plan = plan_blocks(chain(2**20, 2**20), Limits(8 * MIB))
    assert plan.count > 10**6
    last = plan.task(plan.count - 1)
    assert last.outputs[0].region.stop == (2**20, 2**20)
    assert last.graph is plan.task(0).graph
    assert plan.consumers(plan.count // 2) == ()
    assert plan.summary().bytes_out == 4 * 2**40


def test_the_tile_is_shown() -> None:
    assert plan_blocks(chain(4096, 4096), Limits(64 * MIB)).summary().tile[1] == 4096
    assert plan_blocks(chain(4096, 4096), Limits(64 * MIB)).summary().kind == "blocks"
