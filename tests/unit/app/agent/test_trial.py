"""A card measured for its owner: walled in, locked, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.agent.events import EngineReady, EngineStopped, Event
from app.agent.fleet import Fleet
from app.agent.locks import take_card
from app.agent.settings import read_settings
from app.agent.trial import Trial
from gpugoblin.errors import AgentError, EngineError
from tests.helpers.stub_engine import READY, StubMaker

NAME = "test-trial"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Fleet, list[Event]]:
    monkeypatch.setattr("app.agent.fleet.take_card", lambda _, is_shared: take_card(NAME))
    events: list[Event] = []
    fleet = Fleet(read_settings(None), Path("/"), StubMaker(), events.append, lambda *_: None)
    fleet.find()
    return fleet, events


async def until(events: list[Event], kind: type[Event]) -> None:
    while not any(isinstance(each, kind) for each in events):
        await asyncio.sleep(0.01)


def test_a_card_is_measured_under_its_lock_which_is_free_then(
    made: tuple[Fleet, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = made
    seen: list[Any] = []
    inner = fleet.host

    def host(guest: Any) -> None:
        inner(guest)
        if guest is not None:
            with pytest.raises(AgentError):
                take_card(NAME)
        seen.append((fleet.held(), bool(fleet.pids())))

    monkeypatch.setattr(Fleet, "host", lambda _self, guest: host(guest))
    shown = asyncio.run(_closed(fleet, Trial(fleet)(0)))
    assert shown.is_fresh
    assert shown.level == READY.level
    assert shown.rates.flops_per_s > 0
    assert [held for held, _ in seen] == [("cpu",), ()]
    take_card(NAME).release()


def test_a_card_that_lends_is_not_disturbed(made: tuple[Fleet, list[Event]]) -> None:
    fleet, events = made

    async def script() -> None:
        engine = fleet.cards[0].engine
        engine.begin()
        await until(events, EngineReady)
        shown = await Trial(fleet)(0)
        assert not shown.is_fresh
        assert shown.rates == engine.rates
        engine.stop()
        await until(events, EngineStopped)

    asyncio.run(_closed(fleet, script()))


def test_one_at_a_time_and_only_what_is_there(made: tuple[Fleet, list[Event]]) -> None:
    fleet, _ = made

    async def script() -> None:
        trial = Trial(fleet)
        with pytest.raises(AgentError) as caught:
            await trial(7)
        assert caught.value.code == "card_unknown"
        first, second = await asyncio.gather(trial(0), trial(0), return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert isinstance(second, AgentError)
        assert second.code == "trial_busy"

    asyncio.run(_closed(fleet, script()))


def test_it_is_called_off_with_the_agent(
    made: tuple[Fleet, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = made
    trial = Trial(fleet)
    inner = fleet.host

    def host(guest: Any) -> None:
        inner(guest)
        trial.call_off()

    monkeypatch.setattr(Fleet, "host", lambda _self, guest: host(guest))
    with pytest.raises(EngineError):
        asyncio.run(_closed(fleet, trial(0)))
    take_card(NAME).release()


async def _closed(fleet: Fleet, work: Any) -> Any:
    try:
        return await work
    finally:
        fleet.close()
