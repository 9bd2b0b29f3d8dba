"""The handle against engines that lie, fall silent or die; all of them real child processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.host.arena import Arena
from app.host.engine import Engine
from app.host.spec import Died, Done, EngineTask, Event, HostSpec, Launcher, Log, Ready, Refused
from app.sandbox.spec import CardAccess
from gpugoblin.errors import EngineError

Lying = Callable[[str], Launcher]


class FakeClock:
    """Time that stands still until it is told to pass; real waits stay real."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def wall_s(self) -> float:
        return self.now_s

    def monotonic_s(self) -> float:
        return self.now_s


def a_task(engine: Engine, predicted_s: float = 60.0) -> EngineTask:
    return EngineTask(
        b"graph", (engine.inputs.allocate(16),), (engine.outputs.allocate(16),), predicted_s
    )


def until_died(engine: Engine) -> tuple[list[Event], Died]:
    seen: list[Event] = []
    for _ in range(2000):
        for event in engine.wait(10.0):
            if isinstance(event, Died):
                return seen, event
            seen.append(event)
    raise AssertionError("the engine lives on")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    "kind",
    [
        "garbage",
        "short",
        "huge",
        "wrong_magic",
        "wrong_version",
        "flags",
        "wrong_length",
        "unknown_type",
        "unknown_field",
        "long_word",
        "sentence",
        "deep",
        "wrong_sequence",
        "parents_word",
        "not_ready",
        "descriptors",
        "ready_twice",
        "exported",
        "prepared",
        "idly_lost",
        "log_flood",
        "binary_log",
        "pong",
    ],
)
def test_a_lie_ends_the_engine(kind: str, lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying(kind)) as engine:
        pid = engine._process.engine_pid
        _, died = until_died(engine)
        assert died.error.code == "engine_lied"
        assert is_gone(pid)
        assert engine.poll() == ()
        assert not engine.alive


@pytest.mark.parametrize(
    "kind",
    ["progress_flood", "unknown_task", "done_twice", "out_of_order", "infinite_time", "negative"],
)
def test_a_lie_about_a_task_ends_the_engine(kind: str, lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying(kind)) as engine:
        engine.wait_ready()
        first = engine.submit(a_task(engine))
        second = engine.submit(a_task(engine))
        seen, died = until_died(engine)
        assert died.error.code == "engine_lied"
        answered = {event.task for event in seen if isinstance(event, Done)}
        assert set(died.lost) == {first, second} - answered


def test_an_engine_that_dies_says_its_last_words(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("dies")) as engine:
        engine.wait_ready()
        task = engine.submit(a_task(engine))
        _, died = until_died(engine)
        assert died.error.code == "engine_died"
        assert died.error.fields["status"] == 3
        assert died.error.fields["doing"] == f"computing task {task}"
        assert "last words" in str(died.error)
        assert died.lost == (task,)


@pytest.mark.parametrize(("kind", "status"), [("dies_at_once", 9), ("closes", -9), ("noisy", 4)])
def test_an_engine_that_never_gets_ready(
    kind: str, status: int, lying: Lying, host_spec: HostSpec
) -> None:
    with Engine.start(host_spec, lying(kind)) as engine:
        with pytest.raises(EngineError) as caught:
            engine.wait_ready()
        assert caught.value.code == "engine_died"
        assert caught.value.fields["status"] == status
        assert len(str(caught.value)) < 1000


def test_a_silent_engine_is_ended_after_the_start_limit(lying: Lying, host_spec: HostSpec) -> None:
    clock = FakeClock()
    with Engine.start(host_spec, lying("silent"), clock=clock) as engine:
        clock.now_s += host_spec.start_limit_s
        assert engine.poll() == ()
        assert engine.alive
        clock.now_s += 0.1
        engine.poll()
        assert not engine.alive
        _, died = until_died(engine)
        assert died.error.code == "engine_silent"


def test_b5895_b5893_a_task_over_its_time_ends_the_engine(
    lying: Lying, host_spec: HostSpec
) -> None:
    clock = FakeClock()
    with Engine.start(host_spec, lying("silent_task"), clock=clock) as engine:
        engine.wait_ready()
        task = engine.submit(a_task(engine, predicted_s=10.0))
        clock.now_s += 25.0
        engine.poll()
        assert engine.alive
        clock.now_s += 0.1
        engine.poll()
        _, died = until_died(engine)
        assert died.error.code == "engine_overran"
        assert died.error.fields["limit_s"] == 25.0
        assert died.lost == (task,)


def test_time_stands_still_for_a_frozen_engine(lying: Lying, host_spec: HostSpec) -> None:
    clock = FakeClock()
    with Engine.start(host_spec, lying("silent_task"), clock=clock) as engine:
        engine.wait_ready()
        engine.submit(a_task(engine, predicted_s=0.0))
        engine.freeze()
        clock.now_s += 1000.0
        engine.poll()
        engine.thaw()
        clock.now_s += 4.9
        engine.poll()
        assert engine.alive
        clock.now_s += 0.2
        engine.poll()
        assert until_died(engine)[1].error.code == "engine_overran"


def test_f448_a_cancelled_task_gets_ten_seconds_to_end(lying: Lying, host_spec: HostSpec) -> None:
    clock = FakeClock()
    with Engine.start(host_spec, lying("silent_task"), clock=clock) as engine:
        engine.wait_ready()
        task = engine.submit(a_task(engine, predicted_s=1000.0))
        clock.now_s += 3.0
        engine.cancel(task)
        clock.now_s += 9.9
        engine.poll()
        assert engine.alive
        clock.now_s += 0.2
        engine.poll()
        assert until_died(engine)[1].error.code == "engine_overran"


def test_an_engine_that_takes_too_much_memory_is_ended(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("hungry")) as engine:
        _, died = until_died(engine)
        assert died.error.code == "engine_over_memory"
        fields = died.error.fields
        assert int(str(fields["used_bytes"])) > int(str(fields["limit_bytes"])) > 0


def test_stop_and_close_reap_at_once(lying: Lying, host_spec: HostSpec) -> None:
    engine = Engine.start(host_spec, lying("honest"))
    engine.wait_ready()
    pid = engine._process.engine_pid
    engine.stop()
    _, died = until_died(engine)
    assert died.error.code == "engine_stopped"
    assert is_gone(pid)
    with pytest.raises(EngineError) as caught:
        engine.submit(EngineTask(b"", (), (), 0.0))
    assert caught.value.code == "engine_closed"
    engine.close()
    engine.close()


def test_a_queue_of_four_and_no_more(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("silent_task")) as engine:
        engine.wait_ready()
        task = a_task(engine)
        numbers = [engine.submit(task) for _ in range(4)]
        assert numbers == [1, 2, 3, 4] == list(engine.queued)
        assert engine.free_places == 0
        with pytest.raises(EngineError) as caught:
            engine.submit(task)
        assert caught.value.code == "engine_busy"


def test_slots_must_be_in_use(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("honest")) as engine:
        slot = engine.inputs.allocate(8)
        engine.inputs.free(slot)
        with pytest.raises(EngineError) as caught:
            engine.submit(EngineTask(b"", (slot,), (), 1.0))
        assert caught.value.code == "arena_slot_unknown"


def test_a_large_graph_lies_in_the_arena_until_the_answer(
    lying: Lying, host_spec: HostSpec
) -> None:
    with Engine.start(host_spec, lying("honest")) as engine:
        engine.wait_ready()
        before = engine.inputs.used_bytes
        task = engine.submit(EngineTask(b"x" * 10_000, (), (), 1.0))
        assert engine.inputs.used_bytes > before
        seen: list[Event] = []
        while not seen:
            seen += engine.wait(10.0)
        assert seen == [Done(task, 0.1, 0)]
        assert engine.inputs.used_bytes == before


def test_arenas_of_the_caller_outlive_the_engine(lying: Lying, host_spec: HostSpec) -> None:
    with Arena(8192, "input") as inputs, Arena(8192, "output") as outputs:
        with Engine.start(host_spec, lying("honest"), arenas=(inputs, outputs)) as engine:
            assert isinstance(engine.wait_ready(), Ready)
        slot = inputs.allocate(4)
        inputs.view(slot)[:] = b"kept"


def test_a_launcher_that_fails_leaves_nothing(host_spec: HostSpec) -> None:
    from pathlib import Path

    runtime = replace(host_spec.runtime, python=Path("/nonexistent/python"))
    with pytest.raises(EngineError) as caught:
        Engine.start(replace(host_spec, runtime=runtime))
    assert caught.value.code == "engine_start_failed"


def test_log_lines_become_events(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("log_flood")) as engine:
        seen, died = until_died(engine)
        lines = [event for event in seen if isinstance(event, Log)]
        assert 0 < len(lines) < 2000
        assert died.error.code == "engine_lied"


def test_a_lost_card_is_told_with_what_ran(lying: Lying, host_spec: HostSpec) -> None:
    """Whatever an engine says after it is not heard."""
    with Engine.start(host_spec, lying("after_lost")) as engine:
        engine.wait_ready()
        task = engine.submit(a_task(engine))
        seen, died = until_died(engine)
        assert died.error.code == "card_lost"
        assert died.error.fields["kernels"] == ("0123456789abcdef",)
        assert died.lost == (task,)
        assert not [event for event in seen if isinstance(event, Done)]


def test_nothing_is_exported_by_an_engine_that_works(lying: Lying, host_spec: HostSpec) -> None:
    with Engine.start(host_spec, lying("honest")) as engine:
        engine.wait_ready()
        with pytest.raises(EngineError) as raised:
            engine.export(engine.outputs.allocate(4096))
        assert raised.value.code == "engine_works"
        assert engine.alive


@pytest.mark.parametrize("question", ["prepare", "export"])
def test_an_engine_that_owes_an_answer_about_kernels_is_ended(
    question: str, lying: Lying, host_spec: HostSpec
) -> None:
    """A driver may hang over what it compiled; nothing else would end that wait."""
    clock = FakeClock()
    spec = replace(host_spec, warms=frozenset({b"known"}))
    with Engine.start(spec, lying("silent_task"), clock=clock) as engine:
        engine.wait_ready()
        if question == "prepare":
            engine.prepare((), ())
        else:
            engine.export(engine.outputs.allocate(4096))
        clock.now_s += host_spec.start_limit_s
        engine.poll()
        assert engine.alive
        clock.now_s += 0.1
        engine.poll()
        _, died = until_died(engine)
        assert died.error.code == "engine_silent"
        assert "kernels" in str(died.error)


def test_what_does_not_fit_names_the_memory_of_the_card(lying: Lying, host_spec: HostSpec) -> None:
    spec = replace(host_spec, card=CardAccess("drm", memory_bytes=7000))
    with Engine.start(spec, lying("refuses")) as engine:
        engine.wait_ready()
        engine.submit(a_task(engine))
        events: list[Event] = []
        while not events:
            events += engine.wait(10.0)
        assert isinstance(events[0], Refused)
        assert events[0].error.fields == {"needed_bytes": 8000, "memory_bytes": 7000}


def test_an_engine_that_warms_up_takes_no_task(lying: Lying, host_spec: HostSpec) -> None:
    spec = replace(host_spec, warms=frozenset({b"known"}))
    with Engine.start(spec, lying("honest")) as engine:
        engine.wait_ready()
        with pytest.raises(EngineError) as raised:
            engine.submit(a_task(engine))
        assert raised.value.code == "engine_warms"
        engine.submit(replace(a_task(engine), graph=b"known"))
