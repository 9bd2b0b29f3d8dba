"""The engine's thread."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.host.spec import EngineTask
from gpugoblin.errors import VerifyError
from gpugoblin.graph.serialize import encode
from server_stub.node.workers import engine_room
from server_stub.node.workers.engine_room import EngineRoom, Outcome, RoomConfig
from tests.helpers.node_work import function_graph

MIB = 1024 * 1024


@pytest.fixture
def room(tmp_path: Path) -> Iterator[EngineRoom]:
    made = EngineRoom(RoomConfig(tmp_path, "none", 1, 16 * MIB, 8 * MIB))
    made.start()
    yield made
    made.close()


def test_tasks_of_many_at_once(room: EngineRoom) -> None:
    """More than the engine's queue takes."""
    answers: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()
    graph = encode(function_graph("neg", 100))
    slots = []
    for number in range(12):
        with room.lock:
            source, target = room.inputs.allocate(400), room.outputs.allocate(400)
            room.inputs.array(source, "float32", (100,))[:] = number
        slots.append(target)
        task = EngineTask(graph, (source,), (target,), 5.0)
        room.submit(task, lambda outcome, number=number: answers.put((number, outcome)))  # type: ignore[misc]
    for _ in slots:
        number, outcome = answers.get(timeout=60)
        assert outcome.error is None
        assert outcome.ready is not None
        assert outcome.ready.level == "none"
        with room.lock:
            result = room.outputs.array(slots[number], "float32", (100,))
        np.testing.assert_array_equal(result, np.full(100, -number, np.float32))


def test_refused_tasks_have_their_error(room: EngineRoom) -> None:
    answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    with room.lock:
        source, target = room.inputs.allocate(400), room.outputs.allocate(400)
    room.submit(EngineTask(b"no graph", (source,), (target,), 5.0), answers.put)
    outcome = answers.get(timeout=60)
    assert outcome.error is not None
    assert outcome.error.code == "task_refused"


def test_a_task_that_kills_is_given_up(room: EngineRoom) -> None:
    answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    graph = encode(function_graph("neg", 1_000_000))
    with room.lock:
        source, target = room.inputs.allocate(4_000_000), room.outputs.allocate(4_000_000)
    # An engine that has no time at all is ended by its watchdog or by us: here by us.
    real = room._start

    def start_and_kill():  # type: ignore[no-untyped-def]
        engine = real()
        engine._process.kill()
        return engine

    room._start = start_and_kill  # type: ignore[method-assign]
    room.submit(EngineTask(graph, (source,), (target,), 5.0), answers.put)
    outcome = answers.get(timeout=60)
    assert outcome.error is not None
    assert outcome.error.code == "engine_died"


@pytest.mark.parametrize(("deaths", "is_done"), [(2, True), (3, False)])
def test_an_engine_that_dies_while_it_starts_is_started_again(
    room: EngineRoom, monkeypatch: pytest.MonkeyPatch, deaths: int, is_done: bool
) -> None:
    answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    with room.lock:
        source, target = room.inputs.allocate(400), room.outputs.allocate(400)
    real, starts = engine_room.Engine.start, []

    def start(*words: Any, **fields: Any) -> Any:
        engine = real(*words, **fields)
        starts.append(engine)
        if len(starts) <= deaths:
            engine._process.kill()
        return engine

    monkeypatch.setattr(engine_room.Engine, "start", start)
    graph = encode(function_graph("neg", 100))
    room.submit(EngineTask(graph, (source,), (target,), 5.0), answers.put)
    outcome = answers.get(timeout=60)
    assert (outcome.error is None) == is_done
    assert outcome.error is None or outcome.error.code == "engine_died"
    assert len(starts) == 3


def test_what_no_arena_holds(room: EngineRoom) -> None:
    room.require(MIB, MIB)
    with pytest.raises(VerifyError) as caught:
        room.require(1 << 40, 0)
    assert caught.value.code == "item_too_large"
