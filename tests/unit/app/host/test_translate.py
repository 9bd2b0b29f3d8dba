"""From words to events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine import protocol
from app.host.arena import Arena, Slot
from app.host.spec import Done, EngineTask, Failed, HostSpec, Progress, Refused
from app.host.translate import about_task, became_ready, launch_spec, place, run_message
from app.sandbox.spec import CardAccess
from gpugoblin.errors import EngineError, GraphError


def test_answers_become_events() -> None:
    assert about_task(3, protocol.Done(0.5, 7), 0) == Done(3, 0.5, 7)
    assert about_task(3, protocol.Progress(0.25), 0) == Progress(3, 0.25)


def test_a_task_that_does_not_fit_names_both_sizes() -> None:
    event = about_task(1, protocol.Refused("does_not_fit", 300), 200)
    assert isinstance(event, Refused)
    assert event.error.code == "does_not_fit"
    assert event.error.fields == {"needed_bytes": 300, "memory_bytes": 200}


def test_a_tensor_that_does_not_fit_at_once_is_told_as_such() -> None:
    event = about_task(1, protocol.Refused("does_not_fit", 300, protocol.AT_ONCE), 2000)
    assert isinstance(event, Refused)
    assert (event.code, event.error.code) == ("does_not_fit", "does_not_fit_at_once")
    assert event.error.fields == {"needed_bytes": 300}


def test_other_refusals_name_the_detail() -> None:
    event = about_task(1, protocol.Refused("graph_malformed", 0, "arity_wrong"), 0)
    assert isinstance(event, Refused)
    assert event.error.code == "task_refused"
    assert "arity_wrong" in str(event.error)


def test_a_wrong_index_is_the_error_of_the_reference() -> None:
    event = about_task(1, protocol.Failed("index_out_of_range", 2, "none", (-1, 0, 5)), 0)
    assert isinstance(event, Failed)
    assert isinstance(event.error, GraphError)
    assert event.error.fields["index"] == -1


@pytest.mark.parametrize("values", [(), (1, 2, 3, 4)])
def test_a_failure_with_other_values_stays_plain(values: tuple[int, ...]) -> None:
    event = about_task(1, protocol.Failed("index_out_of_range", 2, "none", values), 0)
    assert isinstance(event, Failed)
    assert event.error.code == "task_failed"


def test_a_message_about_no_task_is_a_lie() -> None:
    with pytest.raises(EngineError) as caught:
        about_task(1, protocol.Ping(1), 0)
    assert caught.value.code == "engine_lied"


def test_the_level_is_the_launchers_word() -> None:
    words = protocol.Ready(
        "b", "d", "cpu", "0" * 64, "0" * 64, 2, {"level": "full"}, ("float64",), ("int8",),
        classes=("tf32",),
    )  # fmt: skip
    ready = became_ready(words, "none")
    assert ready.level == "none"
    assert ready.walls == {"level": "full"}
    assert ready.classes == ("tf32",)
    assert (ready.dtypes, ready.arithmetic, ready.convolutions) == (("float64",), ("int8",), ())


def test_graphs_travel_inline_or_by_place() -> None:
    task = EngineTask(b"graph", (Slot(0, 4),), (Slot(4096, 8),), 1.0, "exact")
    inline = run_message(task, None)
    assert (inline.graph, inline.graph_place) == (b"graph", None)
    assert inline.outputs == (protocol.Place(4096, 8),)
    placed = run_message(task, place(Slot(8192, 5)))
    assert (placed.graph, placed.graph_place) == (b"", protocol.Place(8192, 5))


def test_the_launcher_gets_what_the_engine_takes_itself(host_spec: HostSpec) -> None:
    inputs, outputs = Arena.pair(1, 1)
    with inputs, outputs:
        spec = launch_spec(replace(host_spec, threads=3), 9, inputs, outputs)
    assert spec.memory_bytes == host_spec.memory_bytes + protocol.overhead_bytes(3)
    assert spec.task_bytes == 0
    assert spec.input_bytes == 4096


def test_a_task_may_have_of_a_card_what_the_process_may_not_have(host_spec: HostSpec) -> None:
    card = CardAccess("drm", nodes=("/dev/dri/renderD128",), memory_bytes=1 << 40)
    wanted = replace(host_spec, backend="vulkan:ab", card=card)
    inputs, outputs = Arena.pair(1, 1)
    with inputs, outputs:
        spec = launch_spec(wanted, 9, inputs, outputs)
    overhead_bytes = protocol.overhead_bytes(wanted.threads, "vulkan:ab")
    assert overhead_bytes == protocol.overhead_bytes(wanted.threads) + protocol.DRIVER_BYTES
    assert spec.memory_bytes == wanted.memory_bytes + overhead_bytes
    assert spec.task_bytes == (1 << 40) + overhead_bytes
    assert spec.card == card
