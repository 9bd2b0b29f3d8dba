"""Engines that know, lie and fail at what is known."""

from __future__ import annotations

from collections import deque

import pytest

from app.agent.answers import cases
from app.agent.proof import ask, prove
from app.agent.settings import read_settings
from app.host.arena import Arena
from app.host.spec import EngineTask, Failed, Refused
from gpugoblin.errors import EngineError
from tests.helpers.cards import missing_card
from tests.helpers.engines import RealEngine
from tests.helpers.stub_engine import StubEngine


def stub(kind: type[StubEngine] = StubEngine) -> StubEngine:
    engine = kind(read_settings(None), deque())
    engine.wait_ready()
    return engine


def require_wrong(engine: StubEngine) -> EngineError:
    with pytest.raises(EngineError) as raised:
        prove(engine, cases())  # type: ignore[arg-type]
    assert engine.inputs.used_bytes == engine.outputs.used_bytes == 0
    engine.close()
    return raised.value


def test_an_engine_that_lies_is_named_with_its_driver() -> None:
    engine = stub()
    engine.is_lying = True
    error = require_wrong(engine)
    assert error.code == "card_lied"
    assert (error.fields["driver"], error.fields["case"]) == ("stub-1", cases()[0].name)


def test_an_engine_that_fails_is_named_too() -> None:
    class Failing(StubEngine):
        def submit(self, task: EngineTask) -> int:
            self._number += 1
            error = EngineError("task_failed", node=0, reason="kernel_failed, EngineError")
            self._tell(Failed(self._number, "kernel_failed", 0, error))
            return self._number

    error = require_wrong(stub(Failing))
    assert error.code == "card_broken"
    assert "kernel_failed" in str(error)


def test_a_refusal_is_no_lie() -> None:
    class Refusing(StubEngine):
        def submit(self, task: EngineTask) -> int:
            self._number += 1
            error = EngineError("task_refused", reason="no kernel")
            self._tell(Refused(self._number, "class_unsupported", error))
            return self._number

    engine = stub(Refusing)
    prove(engine, cases())  # type: ignore[arg-type]
    engine.close()


def test_without_memory_for_it_nothing_is_said_about_the_card() -> None:
    class Short(StubEngine):
        def submit(self, task: EngineTask) -> int:
            self._number += 1
            error = EngineError("task_failed", node=0, reason="out_of_memory, none")
            self._tell(Failed(self._number, "out_of_memory", 0, error))
            return self._number

    engine = stub(Short)
    prove(engine, cases())  # type: ignore[arg-type]
    engine.close()


def test_a_case_without_room_leaves_nothing() -> None:
    engine = stub()
    engine.outputs.close()
    engine.outputs = Arena(4096, "output")
    engine.outputs.allocate(4096)
    with pytest.raises(EngineError) as raised:
        ask(engine, cases()[0])  # type: ignore[arg-type]
    assert raised.value.code == "arena_full"
    assert engine.inputs.used_bytes == 0
    engine.close()


@pytest.mark.parametrize("backend", ["cpu", "vulkan"])
def test_real_engines_know_all_answers(backend: str) -> None:
    if backend == "vulkan" and missing_card():
        pytest.skip(missing_card())
    engine = RealEngine(backend=backend, memory_bytes=2**30, environment={})
    try:
        engine.engine.wait_ready()
        prove(engine.engine, cases())
        assert engine.engine.inputs.used_bytes == engine.engine.outputs.used_bytes == 0
    finally:
        engine.close()
