"""The shape of a stage plan."""

from __future__ import annotations

from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stages import split_stages
from tests.helpers.stages import transformer


def test_figures_of_the_whole_plan() -> None:
    program, parameters = transformer(3, 16, 8, 32)
    plan = split_stages(program, parameters=parameters, limits=Limits(120_000))
    assert plan.peak_bytes == max(stage.peak_bytes for stage in plan.stages)
    assert not plan.tiled
    assert len(plan.cut_bytes) == len(plan.stages) - 1
    for number, crossing in enumerate(plan.cut_bytes):
        over = [one for one in plan.activations if one.maker <= number < one.readers[-1]]
        assert crossing == sum(one.nbytes for one in over)
    assert all(one.nbytes == one.spec.nbytes for one in plan.activations)
    assert any(one.gradient for one in plan.activations)
