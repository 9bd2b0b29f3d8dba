"""The cards of this machine: locked while their engine runs, told as the wire wants them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.agent.events import EngineReady, EngineRefused, EngineStopped, Event
from app.agent.fleet import Fleet, threads_of
from app.agent.locks import take_card
from app.agent.settings import Settings, read_settings
from gpugoblin.errors import AgentError
from tests.helpers.stub_engine import READY, StubMaker


def fleet(events: list[Event], **values: Any) -> Fleet:
    chosen = Settings({**read_settings(None).values, **values})
    made = Fleet(chosen, Path("/"), StubMaker(), events.append, lambda *_: None)
    made.find()
    return made


async def until(events: list[Event], kind: type[Event]) -> None:
    while not any(isinstance(each, kind) for each in events):
        await asyncio.sleep(0.01)


def test_threads() -> None:
    assert threads_of(read_settings(None)) >= 1
    assert threads_of(Settings({**read_settings(None).values, "processor.threads": 3})) == 3


def test_a_processor_that_is_not_lent() -> None:
    assert fleet([], **{"processor.lend": False}).cards == {}


def test_the_lock_is_held_while_the_engine_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "test-fleet"
    monkeypatch.setattr("app.agent.fleet.take_card", lambda _, is_shared: take_card(name))
    events: list[Event] = []
    made = fleet(events)

    async def script() -> None:
        engine = made.cards[0].engine
        engine.begin()
        await until(events, EngineReady)
        with pytest.raises(AgentError):
            take_card(name)
        other_events: list[Event] = []
        other = fleet(other_events)
        other.cards[0].engine.begin()
        await until(other_events, EngineRefused)
        refusal = other.cards[0].engine.refusal
        assert refusal is not None
        assert refusal.code == "card_taken"
        await other.cards[0].engine.close()
        other.close()
        engine.stop()
        await until(events, EngineStopped)
        take_card(name).release()
        await engine.close()

    asyncio.run(script())
    made.close()


def test_facts_come_from_the_engine_that_was_measured() -> None:
    events: list[Event] = []
    made = fleet(events, **{"processor.share": True})
    assert made.classes() == ()
    with pytest.raises(LookupError):
        made.capabilities(0)

    async def script() -> None:
        made.cards[0].engine.begin()
        await until(events, EngineReady)
        await made.cards[0].engine.close()

    asyncio.run(script())
    made.close()
    (card,) = made.classes()
    assert (card.engine_build, card.catalog_hash) == (READY.build, READY.catalog_hash)
    facts = made.capabilities(0)
    assert facts.sandbox_level == "full"
    assert facts.flops_per_s > 0
    assert (facts.dtypes, facts.arithmetic) == (READY.dtypes, READY.arithmetic)
    assert facts.convolutions == READY.convolutions
    assert facts.max_slot_bytes <= made.settings.number("processor.output_bytes")
