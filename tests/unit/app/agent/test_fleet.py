"""The cards of this machine: locked while their engine runs, told as the wire wants them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.agent.events import EngineReady, EngineRefused, EngineStopped, Event
from app.agent.fleet import Fleet, threads_of
from app.agent.locks import take_card
from app.agent.settings import Settings, read_settings
from app.host.cards import Discovery, FoundCard
from gpugoblin.errors import AgentError
from tests.helpers.stub_engine import READY, StubMaker
from tests.unit.app.host.test_cards import CARD

NOWHERE = Path("/nonexistent")
"""No directory of an agent: nothing is remembered."""


def fleet(events: list[Event], **values: Any) -> Fleet:
    chosen = Settings({**read_settings(None).values, **values})
    made = Fleet(chosen, NOWHERE, StubMaker(), events.append, lambda *_: None)
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
    assert facts.classes == card.classes == READY.classes == ("exact", "float32")
    assert facts.max_slot_bytes <= made.settings.number("processor.output_bytes")


def test_cards_are_numbered_behind_the_processor_whether_that_is_lent_or_not() -> None:
    first = FoundCard(**CARD)
    second = replace(first, address="0000:02:00.0")
    software = replace(first, kind="software", address="")
    unsuited = replace(first, address="0000:03:00.0", unsuited="It lacks x.")
    discovery = Discovery((first, second, unsuited, software), ())
    for lends in (True, False):
        chosen = Settings({**read_settings(None).values, "processor.lend": lends})
        made = Fleet(chosen, NOWHERE, StubMaker(), lambda *_: None, lambda *_: None)
        made.find(discovery)
        told = {number: (card.kind, card.identity) for number, card in made.cards.items()}
        assert told == {
            **({0: ("cpu", "cpu")} if lends else {}),
            1: ("vulkan", "0000:01:00.0"),
            2: ("vulkan", "0000:02:00.0"),
        }
        made.close()


def test_a_card_says_what_it_serves() -> None:
    events: list[Event] = []
    made = Fleet(read_settings(None), NOWHERE, StubMaker(), events.append, lambda *_: None)
    started: list[FoundCard] = []

    def make(settings: Settings, directory: Path, card: FoundCard) -> Any:
        started.append(card)
        return StubMaker()(settings, directory)

    made.make_card = make
    card = FoundCard(**{**CARD, "address": "0000:7f:1f.7"})
    made.find(Discovery((card,), ()))

    async def script() -> None:
        made.cards[1].engine.begin()
        await until(events, EngineReady)
        with pytest.raises(AgentError):
            take_card(card.identity)
        assert made.held() == (card.identity,)
        told = made.capabilities(1)
        assert told.operators == {"matmul": 1}
        assert told.classes == READY.classes
        assert told.memory_bytes == card.memory_bytes * 7 // 10
        assert [(each.card, each.kind) for each in made.classes()] == [(1, "vulkan")]
        await made.cards[1].engine.close()

    asyncio.run(script())
    assert started == [card]
    made.close()
