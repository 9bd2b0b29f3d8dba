"""Sixteen cards with twins through the agent's own interfaces: nobody disturbs anybody."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.fleet import Fleet
from app.control import messages as m
from app.control.client import ControlClient
from app.host.cards import Discovery
from app.policy.snapshot import CardFacts, ForeignUse, LoadFacts, PlayFacts, PowerFacts
from app.probes.gather import Machine
from app.probes.idle.source import Input
from app.probes.polls import Pace
from gpugoblin.units import GIB
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker

COUNT = 16


class Look:
    """A probe that sees what the test holds."""

    def __init__(self, name: str, fact: Any) -> None:
        self.name = name
        self.fact = fact
        self.periods_s: dict[Pace, float] = {"off": 0.05, "waiting": 0.05, "lending": 0.05}

    def look(self) -> object:
        return self.fact


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def healthy() -> dict[str, CardFacts]:
    return {f"GPU-{number}": CardFacts(0, "cuda") for number in range(COUNT)}


def test_one_card_never_disturbs_another(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(fleet: Fleet, discovery: Discovery) -> None:
        for number in range(COUNT):
            fleet._add(number, "vulkan", f"GPU-{number}", None)

    monkeypatch.setattr(Fleet, "find", find)
    cards = Look("cards", healthy())
    polled = (cards, Look("terminals", Input(5.0)), Look("play", PlayFacts()),
              Look("power", PowerFacts()), Look("load", LoadFacts(0.0, 2**40, 2**40)))  # fmt: skip
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}

    def adjust(machine: Machine) -> Machine:
        return replace(machine, polled=polled, environment=lambda: environment)

    def script() -> None:
        directory = scene.state / "control"
        eventually(lambda: (directory / "control.sock").exists())
        with ControlClient(directory) as control:
            eventually(lambda: lending(control) == set(range(COUNT)))
            rng = random.Random(3)
            for _ in range(8):
                gone, used = rng.sample(range(COUNT), 2)
                facts = healthy()
                facts[f"GPU-{gone}"] = CardFacts(0, "cuda", trouble="it was unplugged")
                user = ForeignUse("train.py", 8 * GIB)
                facts[f"GPU-{used}"] = CardFacts(0, "cuda", foreign=(user,))
                cards.fact = facts
                others = set(range(COUNT)) - {gone, used}
                eventually(lambda o=others: lending(control) == o)  # type: ignore[misc]
                assert why(control, gone) == "card_unusable"
                assert why(control, used) == "card_used"
                cards.fact = healthy()
                eventually(lambda: lending(control) == set(range(COUNT)))
            control.ask(m.Pause(1, "i", (1,)))
            eventually(lambda: lending(control) == set(range(COUNT)) - {1})

    scene.more = {}
    path = scene.config
    path.write_text("calm.after_s = 0\n" + path.read_text())
    scene.fixed_config = path
    scene.lend(script, StubMaker(), adjust)


def shown(control: ControlClient) -> dict[int, m.CardItem]:
    return {i.card: i for i in control.status().values() if isinstance(i, m.CardItem)}


def lending(control: ControlClient) -> set[int]:
    return {number for number, item in shown(control).items() if item.ruling == "RUN"}


def why(control: ControlClient, card: int) -> str:
    return shown(control)[card].reasons[0].code
