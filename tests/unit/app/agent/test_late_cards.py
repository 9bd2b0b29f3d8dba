"""Cards that come, go and come back while the agent runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.agent import late_cards
from app.agent.fleet import Card, Fleet
from app.agent.late_cards import LateCards, hardware
from app.agent.settings import Settings
from app.agent.speech import Speech
from app.control import messages as m
from app.control.client import ControlClient
from app.host.cards import Discovery, FoundCard
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from gpugoblin.clock import SystemClock
from gpugoblin.errors import EngineError
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker
from tests.unit.app.agent.test_fleet import fleet as made_fleet
from tests.unit.app.agent.test_sixteen_cards import Look, lending, shown, why
from tests.unit.app.host.test_cards import CARD

DOMAIN = f"{os.getpid() & 0xFFFF:04x}"
"""Cards are locked for the whole machine, and other tests have some, too."""
FIRST = FoundCard(**{**CARD, "address": f"{DOMAIN}:01:00.0"})
SECOND = msgspec.structs.replace(FIRST, address=f"{DOMAIN}:02:00.0", uuid="cd" * 16)
TWIN = msgspec.structs.replace(FIRST, address=f"{DOMAIN}:00:01.0", uuid="ef" * 16)
TROUBLE = EngineError("card_driver_silent", driver="nvidia_icd.json")


class Plugs:
    """What the machine has: drivers are asked through it."""

    def __init__(self, *cards: FoundCard) -> None:
        self.cards = cards
        self.troubles: tuple[EngineError, ...] = ()
        self.asked = 0
        self.hardware_asked = 0
        self.fails = 0

    def look(self) -> Discovery:
        self.asked += 1
        if self.fails:
            self.fails -= 1
            raise (OSError, RuntimeError)[self.fails % 2]("no process can be made, or no thread")
        return Discovery(self.cards, self.troubles)

    def hardware(self) -> frozenset[tuple[str, int]]:
        self.hardware_asked += 1
        return frozenset((card.address, 0) for card in self.cards)


@pytest.fixture
def plugs(monkeypatch: pytest.MonkeyPatch) -> Plugs:
    """Looked at all the time."""
    made = Plugs(FIRST)
    monkeypatch.setattr(late_cards, "hardware", made.hardware)
    monkeypatch.setattr(late_cards, "PERIOD_S", 0.02)
    monkeypatch.setattr(late_cards, "CALM_S", 0.0)
    return made


class Around:
    """A fleet and what was said of it."""

    def __init__(self, plugs: Plugs) -> None:
        self.fleet: Fleet = made_fleet([])
        self.joined: list[int] = []
        self.lines: list[str] = []
        self.busy: set[int] = set()
        self.late = LateCards(
            plugs.look, self.fleet, Speech(self.lines.append, SystemClock()), self._join,
            lambda number: number not in self.busy,
        )  # fmt: skip

    def _join(self, cards: tuple[Card, ...]) -> None:
        self.joined += [card.number for card in cards]

    async def until(self, holds: Any) -> None:
        task = asyncio.create_task(self.late.follow())
        try:
            async with asyncio.timeout(20):
                while not holds():
                    await asyncio.sleep(0.01)
        finally:
            task.cancel()
            await asyncio.wait([task])


def identities(fleet: Fleet) -> dict[int, str]:
    return {number: card.identity for number, card in fleet.cards.items()}


def test_a_card_that_is_plugged_in_joins_and_moves_no_other(plugs: Plugs) -> None:
    around = Around(plugs)
    plugs.cards = (TWIN, FIRST, SECOND)
    asyncio.run(around.until(lambda: len(around.joined) == 2))
    around.fleet.close()
    assert identities(around.fleet) == {
        0: "cpu", 1: FIRST.identity, 2: TWIN.identity, 3: SECOND.identity,
    }  # fmt: skip
    assert sum("was found: Some card" in line for line in around.lines) == 2


def test_drivers_are_asked_only_where_something_changed_and_twice_then(plugs: Plugs) -> None:
    around = Around(plugs)

    async def rests() -> None:
        await around.until(lambda: plugs.hardware_asked > 8)
        assert plugs.asked == 1
        plugs.cards = (FIRST, SECOND)
        await around.until(lambda: plugs.asked == 1 + late_cards.LOOKS)
        before = plugs.hardware_asked
        await around.until(lambda: plugs.hardware_asked > before + 8)

    asyncio.run(rests())
    around.fleet.close()
    assert plugs.asked == 1 + late_cards.LOOKS


def test_a_driver_that_answers_late_and_a_fork_that_fails(plugs: Plugs) -> None:
    plugs.troubles = (TROUBLE,)
    around = Around(plugs)
    assert sum("cannot be lent" in line for line in around.lines) == 1
    plugs.cards, plugs.fails = (FIRST, SECOND), 3
    asyncio.run(around.until(lambda: around.joined == [2]))
    around.fleet.close()
    assert plugs.asked >= 5
    assert sum("cannot be lent" in line for line in around.lines) == 1  # said once


def test_another_card_in_the_same_place_is_taken_when_the_engine_is_gone(
    plugs: Plugs, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = Around(plugs)
    started: list[FoundCard] = []

    def make(settings: Settings, directory: Path, card: FoundCard) -> Any:
        started.append(card)
        return StubMaker()(settings, directory)

    around.fleet.make_card = make
    other = msgspec.structs.replace(FIRST, name="Other card", uuid="01" * 16)
    around.fleet.cards[1].done = 7
    around.busy = {1}
    plugs.cards = (other,)
    monkeypatch.setattr(late_cards, "hardware", lambda: frozenset({("changed", 1)}))

    async def script() -> None:
        await around.until(lambda: plugs.asked > 4)
        assert around.fleet.cards[1].found == FIRST
        around.busy = set()
        await around.until(lambda: around.fleet.cards[1].found == other)

    asyncio.run(script())
    around.fleet.cards[1].make().close()
    around.fleet.close()
    assert started == [other]
    assert around.fleet.cards[1].done == 7
    assert around.joined == []


def test_what_a_card_needs_to_be_found(tmp_path: Path) -> None:
    driver = tmp_path / "radeon_icd.json"
    driver.write_text("{}")
    nodes = tmp_path / "dri"
    nodes.mkdir()

    def seen() -> frozenset[tuple[str, int]]:
        return hardware((nodes, tmp_path / "absent"), lambda: [driver, tmp_path / "gone.json"])

    before = seen()
    (nodes / "card0").touch()
    assert seen() == before
    (nodes / "renderD128").touch()
    assert len(seen() - before) == 1
    before = seen()
    driver.unlink()
    assert len(before - seen()) == 1


# -- the whole agent ----------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_a_card_comes_goes_and_comes_back_with_its_settings_and_its_owners_word(
    scene: Scene, plugs: Plugs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(settings: Settings, directory: Path, card: FoundCard, *_: Any) -> Any:
        return StubMaker()(settings, directory)

    monkeypatch.setattr("app.agent.agent.start_warm_engine", None)
    monkeypatch.setattr(
        "app.agent.agent.Fleet", lambda *given, **named: Fleet(*given, make_card=make, **named)
    )
    healthy = {"cpu": CardFacts(0, "cpu"), FIRST.identity: CardFacts(0, "vulkan"),
               TWIN.identity: CardFacts(0, "vulkan")}  # fmt: skip
    cards = Look("cards", healthy)
    polled = (cards, Look("terminals", Input(5.0)), Look("play", PlayFacts()),
              Look("power", PowerFacts()), Look("load", LoadFacts(0.0, 2**40, 2**40)))  # fmt: skip

    def adjust(machine: Machine) -> Machine:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
        return replace(machine, polled=polled, environment=lambda: environment)

    def first() -> None:
        directory = scene.state / "control"
        eventually(lambda: (directory / "control.sock").exists())
        with ControlClient(directory) as control:
            eventually(lambda: lending(control) == {0, 1})
            plugs.cards = (TWIN, FIRST)
            eventually(lambda: lending(control) == {0, 1, 2})
            assert shown(control)[2].identity == TWIN.identity
            control.ask(m.Pause(1, "twin", (2,)))
            eventually(lambda: lending(control) == {0, 1})
            cards.fact = {**healthy, FIRST.identity: CardFacts(0, "", trouble="it was unplugged")}
            eventually(lambda: lending(control) == {0})
            assert why(control, 1) == "card_unusable"
            plugs.cards = (TWIN,)
            cards.fact = healthy
            plugs.cards = (TWIN, FIRST)
            eventually(lambda: lending(control) == {0, 1})

    def second() -> None:
        directory = scene.state / "control"
        eventually(lambda: (directory / "control.sock").exists())
        with ControlClient(directory) as control:
            eventually(lambda: lending(control) == {0, 1})
            told = shown(control)
            assert (told[1].identity, told[2].identity) == (FIRST.identity, TWIN.identity)
            assert told[2].reasons[0].code == "owner_paused"

    scene.config.write_text("calm.after_s = 0\n" + scene.config.read_text())
    scene.fixed_config = scene.directory / "agent.toml"
    scene.lend(first, StubMaker(), adjust, look=plugs.look)
    scene.lend(second, StubMaker(), adjust, look=plugs.look)
