"""When a known answer is asked for between tasks, and which."""

from __future__ import annotations

from collections import deque

from app.agent.answers import cases
from app.agent.checkup import Checkup
from app.agent.settings import read_settings
from app.host.spec import Done
from tests.helpers.stub_engine import StubEngine


def stub() -> StubEngine:
    engine = StubEngine(read_settings(None), deque())
    engine.wait_ready()
    return engine


def answered(engine: StubEngine) -> Done:
    (event,) = engine.poll()
    assert isinstance(event, Done)
    return event


def test_every_so_many_tasks_another_case() -> None:
    engine, checkup = stub(), Checkup(every=2)
    for _ in range(2 * len(cases())):
        checkup.ask_if_due(engine)  # type: ignore[arg-type]
        for event in engine.poll():
            assert isinstance(event, Done)
            assert event.task in checkup
            assert checkup.judge(engine, event) is None  # type: ignore[arg-type]
            assert event.task not in checkup
        checkup.count()
    assert engine.proofs == len(cases()) - 1
    assert engine.inputs.used_bytes == engine.outputs.used_bytes == 0
    engine.close()


def test_where_there_is_no_room_the_next_task_asks() -> None:
    engine, checkup = stub(), Checkup(every=1)
    checkup.count()
    engine.free_places = 0
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    engine.free_places = 1
    rest = engine.outputs.allocate(engine.outputs.size_bytes)
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    assert engine.poll() == ()
    engine.outputs.free(rest)
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    assert checkup.judge(engine, answered(engine)) is None  # type: ignore[arg-type]
    engine.close()


def test_a_lie_is_seen() -> None:
    engine, checkup = stub(), Checkup(every=0)
    engine.is_lying = True
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    wrong = checkup.judge(engine, answered(engine))  # type: ignore[arg-type]
    assert wrong is not None
    assert wrong.code == "card_lied"
    engine.close()


def test_an_engine_that_is_gone_is_not_asked_any_more() -> None:
    engine, checkup = stub(), Checkup(every=0)
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    number = answered(engine).task
    checkup.forget()
    assert number not in checkup
    engine.stop()
    checkup.ask_if_due(engine)  # type: ignore[arg-type]
    engine.close()
