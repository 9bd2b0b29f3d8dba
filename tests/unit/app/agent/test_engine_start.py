"""One start: ready and measured, or nothing left behind."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from app.agent.calibration import Rates
from app.agent.engine_start import EngineStart
from app.agent.settings import read_settings
from app.host.spec import Died
from gpugoblin.errors import EngineError
from tests.helpers.stub_engine import READY, StubEngine


class Watched(StubEngine):
    """A stub that knows whether it was closed, and does something at each wait."""

    def __init__(self, at_wait: Callable[[Watched], None] = lambda _: None) -> None:
        super().__init__(read_settings(None), deque())
        self.is_closed = False
        self._at_wait = at_wait

    def wait(self, timeout_s: float) -> tuple[Any, ...]:
        self._at_wait(self)
        return super().wait(timeout_s)

    def close(self) -> None:
        self.is_closed = True
        super().close()


def start(engine: StubEngine, rates: Rates | None = None) -> EngineStart:
    return EngineStart(lambda: engine, rates)  # type: ignore[arg-type,return-value]


def test_an_engine_is_ready_and_measured() -> None:
    engine = Watched()
    started = start(engine)()
    assert (started.engine, started.ready) == (engine, READY)
    assert started.rates.flops_per_s > 0
    assert not engine.is_closed
    engine.close()


def test_what_was_measured_is_not_measured_again() -> None:
    engine, rates = Watched(), Rates(3.0, 5.0)
    assert start(engine, rates)().rates is rates
    assert engine.submit.__self__._number == 0  # type: ignore[attr-defined]
    engine.close()


def test_called_off_before_nothing_is_made() -> None:
    made: list[int] = []
    call = EngineStart(lambda: made.append(1), None)  # type: ignore[arg-type,func-returns-value]
    call.call_off()
    with pytest.raises(EngineError, match="engine_stopped"):
        call()
    assert made == []


@pytest.mark.parametrize("rates", [None, Rates(1.0, 1.0)])
def test_called_off_while_it_starts(rates: Rates | None) -> None:
    engine = Watched(lambda _: call.call_off())
    call = start(engine, rates)
    with pytest.raises(EngineError, match="engine_stopped"):
        call()
    assert engine.is_closed


def test_called_off_from_another_thread() -> None:
    waits, go = threading.Event(), threading.Event()

    def hang(engine: Watched) -> None:
        waits.set()
        go.wait(5)

    engine = Watched(hang)
    call = start(engine)
    errors: list[str] = []

    def work() -> None:
        try:
            call()
        except EngineError as error:
            errors.append(error.code)

    thread = threading.Thread(target=work)
    thread.start()
    assert waits.wait(5)
    call.call_off()
    go.set()
    thread.join(5)
    assert errors == ["engine_stopped"]
    assert engine.is_closed


def test_an_end_beside_an_answer_is_seen() -> None:
    error = EngineError("engine_died", status=9, doing="x", stderr="none")

    def die(engine: Watched) -> None:
        if engine.ready is not None:
            engine._tell(Died(error, ()))

    engine = Watched(die)
    with pytest.raises(EngineError, match="engine_died"):
        start(engine)()
    assert engine.is_closed
