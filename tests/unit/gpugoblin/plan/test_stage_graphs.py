"""The graphs of one stage."""

from __future__ import annotations

from gpugoblin.graph.check import check
from gpugoblin.plan.spine import line_of
from gpugoblin.plan.stage_graphs import Port, StageGraphs, stage_graphs
from tests.helpers.stages import transformer

PROGRAM, PARAMETERS = transformer(1, 16, 8, 32)
LINE = line_of(PROGRAM, frozenset(PARAMETERS))
REACHED = frozenset(range(len(PROGRAM.inputs) + len(PROGRAM.constants), len(PROGRAM.specs())))


def made(start: int, stop: int, coming: frozenset[int] | None = None) -> StageGraphs:
    found = stage_graphs(
        LINE, start, stop, weights=PARAMETERS, loss=0, reached=REACHED, coming=coming
    )
    check(found.forward)
    assert len(found.inputs) == len(found.forward.inputs)
    assert len(found.outputs) == len(found.forward.outputs)
    if found.backward is not None:
        check(found.backward)
        assert len(found.backward_inputs) == len(found.backward.inputs)
        assert len(found.backward_outputs) == len(found.backward.outputs)
        assert found.backward_inputs[: len(found.inputs)] == found.inputs
    return found


def kinds(ports: tuple[Port, ...]) -> list[str]:
    return [port.kind for port in ports]


def test_a_first_stage_has_no_gradient_of_data() -> None:
    first = made(0, 3)
    assert kinds(first.inputs) == ["input"] * len(first.inputs)
    assert set(kinds(first.outputs)) == {"activation"}
    assert set(kinds(first.backward_outputs)) == {"weight_gradient"}
    assert Port("weight_gradient", 0) not in first.backward_outputs


def test_a_residual_stream_is_carried() -> None:
    """The embedding is read by the first norm and by the sum behind attention: a stage between
    takes its gradient, adds its own share and gives it on."""
    place = next(p for p in range(1, len(LINE.spine)) if len(made(p, p + 1).outputs) == 1
                 and made(p, p + 1).inputs[0].kind == "activation")  # fmt: skip
    middle = made(place, place + 1)
    stream = middle.inputs[0]
    assert Port("gradient", stream.number) in middle.backward_inputs
    assert Port("gradient", stream.number) in middle.backward_outputs


def test_a_last_stage_gives_the_loss_with_its_gradients() -> None:
    last = made(len(LINE.spine) - 3, len(LINE.spine))
    assert last.outputs == (Port("output", 0),)
    assert last.backward_inputs == last.inputs
    assert last.backward_outputs[0] == Port("output", 0)
    assert "gradient" in kinds(last.backward_outputs)


def test_without_coming_gradients_there_is_no_backward() -> None:
    assert made(0, 3, frozenset()).backward is None


def test_forward_alone() -> None:
    found = stage_graphs(LINE, 0, 3, weights=PARAMETERS, loss=None, reached=REACHED)
    assert found.backward is None
    assert found.backward_outputs == ()
