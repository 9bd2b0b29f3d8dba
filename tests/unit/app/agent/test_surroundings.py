"""The agent and what is around it: people come, games start, files change; engines obey."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.surroundings import pace_of
from app.control import messages as m
from app.control.client import ControlClient
from app.policy.combine import CardRuling
from app.policy.rule import Reason, Ruling
from app.policy.snapshot import CardFacts, LoadFacts, PlayFacts, PowerFacts, Sensor
from app.probes.gather import Machine
from app.probes.idle.source import Input
from app.probes.polls import Pace
from tests.helpers.agent_network import eventually
from tests.helpers.agent_run import Scene
from tests.helpers.stub_engine import StubMaker


class World:
    """The machine as its probes see it; a test changes it while the agent runs."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {
            "terminals": Input(5.0), "play": PlayFacts(), "power": PowerFacts(),
            "load": LoadFacts(0.0, 2**40, 2**40), "cards": {"cpu": CardFacts(0, "cpu")},
        }  # fmt: skip

    def adjust(self, machine: Machine) -> Machine:
        environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
        polled = tuple(_Look(self, name) for name in self.facts)
        return replace(machine, polled=polled, environment=lambda: environment)


class _Look:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.periods_s: dict[Pace, float] = {"off": 0.02, "waiting": 0.02, "lending": 0.02}
        self._world = world

    def look(self) -> object:
        fact = self._world.facts[self.name]
        if isinstance(fact, Exception):
            raise fact
        return fact


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def card(control: ControlClient) -> m.CardItem:
    found = control.status()["card-0"]
    assert isinstance(found, m.CardItem)
    return found


def lend(scene: Scene, world: World, script: Callable[[ControlClient], None]) -> None:
    def whole() -> None:
        control_directory = scene.state / "control"
        eventually(lambda: (control_directory / "control.sock").exists())
        with ControlClient(control_directory) as control:
            eventually(lambda: "card-0" in control.status())
            script(control)

    scene.lend(whole, StubMaker(), adjust=world.adjust)


CHANGES: list[tuple[str, object, str]] = [
    ("play", PlayFacts(games=("Quake",)), "game_runs"),
    ("power", PowerFacts(on_battery=True), "on_battery"),
    ("power", OSError("ill"), "power_unknown"),
    ("cards", {"cpu": CardFacts(0, "cpu", sensors=(Sensor("p", "processor", 99.0),))}, "hot"),
    ("cards", {"cpu": CardFacts(0, "cpu", sensors=(Sensor("p", "processor", 0.0),))},
     "sensor_lies"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fact", "code"), CHANGES)
def test_what_happens_ends_the_engine_and_says_why(
    scene: Scene, name: str, fact: object, code: str
) -> None:
    world = World()

    def script(control: ControlClient) -> None:
        eventually(lambda: card(control).engine == "ready")
        world.facts[name] = fact
        eventually(lambda: card(control).engine == "absent")
        assert card(control).ruling == "STOP"
        assert code in [reason.code for reason in card(control).reasons]

    scene.more = {}
    lend(scene, world, script)


def test_somebody_who_comes_and_goes(scene: Scene) -> None:
    world = World()
    world.facts["terminals"] = Input(time.time())

    def script(control: ControlClient) -> None:
        control.ask(m.SettingsSet(1, 0, {"profile": "away", "away.after_minutes": 1}))
        eventually(lambda: card(control).ruling == "STOP")
        assert [reason.code for reason in card(control).reasons] == ["in_use"]
        assert card(control).until_s is not None
        control.ask(m.SettingsSet(2, 1, {"profile": "always"}))
        eventually(lambda: card(control).ruling == "THROTTLE")
        assert card(control).duty_percent == 30
        world.facts["terminals"] = Input(time.time() - 90)
        eventually(lambda: card(control).ruling == "RUN")

    lend(scene, world, script)


def test_the_settings_file_is_read_again_and_a_bad_one_is_not_used(scene: Scene) -> None:
    world = World()

    def script(control: ControlClient) -> None:
        good = scene.config.read_text()
        path = scene.config
        path.write_text(good + "[heat]\ncard_stop_c = 9000\n")
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: scene.said("last good settings hold"))
        assert scene.said("line")
        eventually(lambda: "heat.card_stop_c" in agent_item(control).settings_fault)
        path.write_text(good.replace('profile = "custom"', 'profile = "nights"', 1))
        os.kill(os.getpid(), signal.SIGHUP)
        eventually(lambda: scene.said("was read again"))
        eventually(lambda: agent_item(control).profile == "nights")
        assert agent_item(control).settings_fault == ""

    scene.fixed_config = scene.config
    lend(scene, world, script)


def enrolment(control: ControlClient) -> m.EnrolIs:
    found = control.ask(m.EnrolPoll(1))
    assert isinstance(found, m.EnrolIs)
    return found


def agent_item(control: ControlClient) -> m.AgentItem:
    found = control.status()["agent"]
    assert isinstance(found, m.AgentItem)
    return found


def test_what_may_be_asked(scene: Scene) -> None:
    def script(control: ControlClient) -> None:
        eventually(lambda: card(control).engine == "ready")
        eventually(lambda: enrolment(control).state == "enrolled")
        logs = control.ask(m.Logs(2))
        assert isinstance(logs, m.LogsAre)
        assert "card_lends" in {line.code for line in logs.lines}
        assert not any(str(scene.state) in line.text for line in logs.lines if "/root" in line.text)
        history = control.ask(m.History(3))
        assert isinstance(history, m.HistoryIs)
        declared = control.ask(m.SettingsDescribe(4))
        assert isinstance(declared, m.SettingsDeclared)
        probes = {key for key in control.status() if key.startswith("probe-")}
        assert probes == {f"probe-{name}" for name in
                          ("idle", "play", "power", "network", "load", "cards")}  # fmt: skip
        shown = control.ask(m.Show(5, "settings"))
        assert shown == m.Accepted(5, "", False)

    lend(scene, World(), script)


def test_a_lab_that_the_owner_refuses_gets_nothing(scene: Scene) -> None:
    def script(control: ControlClient) -> None:
        eventually(lambda: any(isinstance(each, m.GrantItem) for each in control.status().values()))
        lab = next(each.lab for each in control.status().values() if isinstance(each, m.GrantItem))
        control.ask(m.SettingsSet(1, 0, {"labs.refuse": (lab,)}))
        eventually(
            lambda: not any(isinstance(each, m.GrantItem) for each in control.status().values())
        )
        eventually(lambda: scene.said("your settings refuse it"))

    lend(scene, World(), script)


def ruling(kind: Ruling, code: str = "x") -> CardRuling:
    return CardRuling(0, kind, (Reason(code),))


@pytest.mark.parametrize(
    ("rulings", "pace"),
    [
        ({}, "waiting"),
        ({0: ruling(Ruling.STOP), 1: ruling(Ruling.RUN)}, "lending"),
        ({0: ruling(Ruling.STOP), 1: ruling(Ruling.STOP, "owner_paused")}, "waiting"),
        ({0: ruling(Ruling.STOP, "owner_stopped")}, "off"),
    ],
)
def test_nobody_looks_closely_for_nothing(rulings: Any, pace: str) -> None:
    assert pace_of(rulings) == pace
