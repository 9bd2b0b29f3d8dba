"""A card measured for its owner: walled in, locked, alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from app.agent.engine_start import EngineStart
from app.agent.events import EngineReady, EngineStopped, Event
from app.agent.fleet import Fleet
from app.agent.locks import take_card
from app.agent.settings import read_settings
from app.agent.trial import FORBIDDING, Trial
from app.policy.combine import CardRuling
from app.policy.reasons import REASONS
from app.policy.rule import Reason, Ruling
from gpugoblin.errors import AgentError, EngineError
from tests.helpers.stub_engine import READY, StubMaker

NAME = "test-trial"
NOWHERE = Path("/nonexistent")
"""No directory of an agent: nothing is remembered."""


def free(_card: int) -> None:
    """No ruling yet."""


def ruled(*codes: str) -> CardRuling:
    return CardRuling(0, Ruling.STOP, tuple(Reason(code, FIELDS.get(code, ())) for code in codes))


FIELDS: dict[str, tuple[tuple[str, float | str], ...]] = {
    "in_use": (("source", "test"),),
    "game_runs": (("games", "supertux"),),
    "was_needed": (("cause", "game_runs"), ("games", "supertux")),
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Fleet, list[Event]]:
    monkeypatch.setattr("app.agent.fleet.take_card", lambda _, is_shared: take_card(NAME))
    events: list[Event] = []
    fleet = Fleet(read_settings(None), NOWHERE, StubMaker(), events.append, lambda *_: None)
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
    shown = asyncio.run(_closed(fleet, Trial(fleet, free)(0)))
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
        shown = await Trial(fleet, free)(0)
        assert not shown.is_fresh
        assert shown.rates == engine.rates
        engine.stop()
        await until(events, EngineStopped)

    asyncio.run(_closed(fleet, script()))


def test_one_at_a_time_and_only_what_is_there(made: tuple[Fleet, list[Event]]) -> None:
    fleet, _ = made

    async def script() -> None:
        trial = Trial(fleet, free)
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
    trial = Trial(fleet, free)
    inner = fleet.host

    def host(guest: Any) -> None:
        inner(guest)
        trial.call_off()

    monkeypatch.setattr(Fleet, "host", lambda _self, guest: host(guest))
    with pytest.raises(EngineError):
        asyncio.run(_closed(fleet, trial(0)))
    take_card(NAME).release()


@pytest.mark.parametrize("codes", [("game_runs",), ("in_use", "was_needed")])
def test_no_card_is_measured_beside_a_game(
    made: tuple[Fleet, list[Event]], codes: tuple[str, ...]
) -> None:
    fleet, _ = made
    with pytest.raises(AgentError, match="supertux") as caught:
        asyncio.run(_closed(fleet, Trial(fleet, lambda _: ruled(*codes))(0)))
    assert caught.value.code == "trial_forbidden"
    assert "in use" not in caught.value.what


def test_whoever_sits_at_the_machine_may_measure_it(made: tuple[Fleet, list[Event]]) -> None:
    fleet, _ = made
    shown = asyncio.run(_closed(fleet, Trial(fleet, lambda _: ruled("in_use", "on_battery"))(0)))
    assert shown.is_fresh


def test_a_game_that_begins_ends_the_measurement(
    made: tuple[Fleet, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = made
    rulings = [ruled("in_use")]
    trial = Trial(fleet, lambda _: rulings[-1])
    inner = fleet.host

    def host(guest: Any) -> None:
        inner(guest)
        if guest is not None:
            trial.follow()  # nothing has changed
            rulings.append(ruled("game_runs"))
            trial.follow()

    monkeypatch.setattr(Fleet, "host", lambda _self, guest: host(guest))
    with pytest.raises(AgentError) as caught:
        asyncio.run(_closed(fleet, trial(0)))
    assert caught.value.code == "trial_forbidden"
    take_card(NAME).release()


def test_whoever_asked_and_went_leaves_no_measurement_behind(
    made: tuple[Fleet, list[Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, _ = made
    begun, called_off = threading.Event(), []
    inner = EngineStart.call_off
    monkeypatch.setattr(
        EngineStart, "call_off", lambda self: (called_off.append(True), inner(self))
    )
    host = fleet.host
    monkeypatch.setattr(Fleet, "host", lambda _self, guest: (host(guest), begun.set()))

    async def script() -> None:
        asking = asyncio.create_task(Trial(fleet, free)(0))
        await asyncio.to_thread(begun.wait, 20.0)
        asking.cancel()
        await asyncio.wait([asking])

    asyncio.run(_closed(fleet, script()))
    assert called_off == [True]
    take_card(NAME).release()


def test_what_forbids_are_reasons_of_the_policy() -> None:
    assert set(REASONS) > FORBIDDING


async def _closed(fleet: Fleet, work: Any) -> Any:
    try:
        return await work
    finally:
        fleet.close()
