"""A task of our own: its answer, or why the engine is gone."""

from __future__ import annotations

from collections import deque

import pytest

from app.agent.answers import cases
from app.agent.own_task import run_own
from app.agent.proof import ask
from app.agent.settings import read_settings
from app.host.spec import Done
from gpugoblin.errors import EngineError
from tests.helpers.stub_engine import StubEngine


def stub() -> StubEngine:
    return StubEngine(read_settings(None), deque())


def test_the_answer_comes_back() -> None:
    engine = stub()
    task = ask(engine, cases()[0]).task  # type: ignore[arg-type]
    assert isinstance(run_own(engine, task), Done)  # type: ignore[arg-type]
    engine.close()


def test_an_end_is_raised() -> None:
    engine = stub()
    task = ask(engine, cases()[0]).task  # type: ignore[arg-type]

    def look() -> None:
        engine.end(EngineError("engine_died", status=9, doing="dying", stderr="none"))

    with pytest.raises(EngineError) as raised:
        run_own(engine, task, look)  # type: ignore[arg-type]
    assert raised.value.code == "engine_died"
    engine.close()
