"""Stage plans: what they compute is what the whole program gives, and every task fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.errors import PlanError
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.graph.memory import bound
from gpugoblin.plan.spec import Limits
from gpugoblin.plan.stages import Pace, StagePlan, split_stages
from tests.helpers.stages import arrays_for, run_stages, trainable, transformer

PROGRAM, PARAMETERS = transformer(3, 16, 8, 32)


def require_like_whole(plan: StagePlan, program: Graph, parameters: tuple[int, ...]) -> None:
    """Outputs and gradients of a step by stages against those of the whole program."""
    arrays = arrays_for(program)
    expected = interpret(gradient(program, parameters), arrays)
    outputs, gradients = run_stages(plan, arrays)
    count = len(program.outputs)
    for number in range(count):
        np.testing.assert_allclose(outputs[number], expected[number], rtol=1e-6)
    for parameter, array in zip(parameters, expected[count:], strict=True):
        if plan.weight_gradients[parameter]:
            np.testing.assert_allclose(gradients[parameter], array, rtol=2e-5, atol=1e-6)
        else:
            assert not array.any()


def require_rules(plan: StagePlan, limits: Limits) -> None:
    """Bounds, and that whatever is read was made before."""
    made = set[int]()
    for stage in plan.stages:
        graphs = [stage.forward, *([stage.backward] if stage.backward else [])]
        if not stage.tiled:
            assert stage.peak_bytes == max(map(bound, graphs))
        assert stage.peak_bytes <= limits.memory_bytes
        assert len(stage.inputs) == len(stage.forward.inputs)
        assert len(stage.outputs) == len(stage.forward.outputs)
        reads = {port.number for port in stage.inputs if port.kind == "activation"}
        assert reads <= made
        made |= {port.number for port in stage.outputs if port.kind == "activation"}
    assert {activation.value for activation in plan.activations} == made
    for activation in plan.activations:
        assert activation.readers
        assert min(activation.readers) > activation.maker
    gradients = set[int]()
    for stage in reversed(plan.stages):
        seeds = {port.number for port in stage.backward_inputs if port.kind == "gradient"}
        assert seeds <= gradients
        gradients |= {port.number for port in stage.backward_outputs if port.kind == "gradient"}


@pytest.mark.parametrize("limit", [200_000, 150_000, 120_000, 100_000])
def test_stages_give_what_the_program_gives(limit: int) -> None:
    plan = split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(limit))
    assert len(plan.stages) > 1
    require_rules(plan, Limits(limit))
    require_like_whole(plan, PROGRAM, PARAMETERS)


def test_smaller_cards_get_more_stages() -> None:
    counts = [
        len(split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(limit)).stages)
        for limit in (10**9, 150_000, 100_000)
    ]
    assert counts[0] == 1
    assert counts[0] < counts[1] < counts[2]


def test_a_tied_embedding_has_two_shares() -> None:
    plan = split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(150_000))
    last = len(plan.stages) - 1
    assert plan.weight_gradients[2] == (last, 0)
    assert 2 in plan.stages[0].weights
    assert 2 in plan.stages[last].weights
    assert all(len(plan.weight_gradients[one]) == 1 for one in PARAMETERS[1:])


def test_the_loss_stage_runs_once() -> None:
    plan = split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(150_000))
    assert [stage.forward_needed for stage in plan.stages] == [True, True, False]
    assert plan.stages[-1].backward_outputs[0].kind == "output"
    first = plan.stages[0]
    assert first.backward_inputs[: len(first.inputs)] == first.inputs
    assert not any(port.kind == "gradient" for port in first.backward_outputs)


def test_inference_has_no_backward() -> None:
    plan = split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(60_000), loss=None)
    assert len(plan.stages) > 1
    assert all(stage.backward is None and stage.forward_needed for stage in plan.stages)
    outputs, gradients = run_stages(plan, arrays_for(PROGRAM))
    assert not gradients
    expected = interpret(PROGRAM, arrays_for(PROGRAM))[0]
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-6)


def test_pace_evens_the_stages() -> None:
    pace = Pace(flops_per_s=1e9, bytes_per_s=1e12)
    plan = split_stages(
        PROGRAM, parameters=PARAMETERS, limits=Limits(10**9), objective="pace", pace=pace,
        most_stages=3,
    )  # fmt: skip
    flops = [stage.backward_flops for stage in plan.stages]
    assert len(flops) == 3
    assert max(flops) < 1.5 * sum(flops) / 3
    require_like_whole(plan, PROGRAM, PARAMETERS)


def test_a_layer_that_fits_nowhere_is_named() -> None:
    number = next(n for n, node in enumerate(PROGRAM.nodes) if node.operator == "layer_norm")
    names = Names(lines={n: f"model.py:{n}" for n in range(len(PROGRAM.nodes))})
    with pytest.raises(PlanError) as caught:
        split_stages(PROGRAM, parameters=PARAMETERS, limits=Limits(500), names=names)
    assert caught.value.code == "plan_layer_does_not_fit"
    assert str(caught.value.fields["layer"]).startswith("model.py:")
    assert number < len(PROGRAM.nodes)


def random_program(data: st.DataObject) -> None:
    """No task over the limit, and the gradients of the whole; or a refusal that names a layer."""
    program, parameters = data.draw(trainable())
    share = data.draw(st.sampled_from([0.25, 0.4, 0.6, 0.8, 1.0]))
    limits = Limits(int(bound(gradient(program, parameters)) * share))
    try:
        plan = split_stages(program, parameters=parameters, limits=limits)
    except PlanError as error:
        refused = error.code, str(error.fields["layer"]).split()[0]
        if refused != ("plan_layer_does_not_fit", "node"):
            raise
        return
    require_rules(plan, limits)
    require_like_whole(plan, program, parameters)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    random_program(data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=5000, deadline=None)
@given(st.data())
def test_many_random_programs(data: st.DataObject) -> None:
    random_program(data)


@pytest.mark.slow
def test_a_head_larger_than_an_engine_is_tiled() -> None:
    """A vocabulary so wide that its product fits no task; the blocks before it are stages."""
    program, parameters = transformer(1, 16, 64, 2048, tied=False)
    limits = Limits(600_000)
    plan = split_stages(program, parameters=parameters, limits=limits)
    assert plan.tiled
    require_rules(plan, limits)
    for stage in plan.stages:
        for tasks in (stage.forward_plan, stage.backward_plan):
            if tasks is not None:
                assert all(
                    tasks.task(n).memory_bound_bytes <= limits.memory_bytes
                    for n in range(tasks.count)
                )
    require_like_whole(plan, program, parameters)
