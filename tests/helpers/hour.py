"""An hour of a desktop's life, recorded by the probes themselves, thirty times faster than life.

    .venv/bin/python -m tests.helpers.hour

makes `tests/golden/hours/desktop.jsonl` in two minutes, and beside it what the rules decide. The X
server is Xvfb, the bus a real dbus-daemon; GameMode, logind, UPower and NetworkManager are services
on it that answer as they do; games are processes with the command lines of games. All that a probe
tells is stretched by 30, and so is how long it took to tell it. Terminals, load and sensors say the
same all the time.

Owns: the script of that hour, and what has to follow from it: `given_back_s`, `false_stops`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dbus_fast import Variant

from app.policy.recording import Decision, Recording, read, replay
from app.policy.snapshot import CardFacts, LoadFacts, PowerFacts, Sensor
from app.probes.desktop.xconnection import XConnection
from app.probes.gather import Machine
from app.probes.idle.source import Input
from app.probes.polls import Pace, Polled
from app.probes.processes import ProcessProbe
from app.record import Recorder
from tests.helpers.desktop import StubServices, answers, private_bus, services, type_key, x_server
from tests.helpers.situations import choices
from tests.unit.app.probes.desktop.test_full_screen import Manager

PLACE: Final = Path(__file__).parents[1] / "golden" / "hours" / "desktop.jsonl"
DECIDED: Final = PLACE.with_name("desktop.decisions.json")
PACE: Final = 30.0
SPAN_S: Final = 120.0
GAMEMODE: Final = "com.feralinteractive.GameMode"
UPOWER: Final = ("/org/freedesktop/UPower", "org.freedesktop.UPower")
NETWORK: Final = ("/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager")
SESSION: Final = "/org/freedesktop/login1/session/_31"
CODES: Final = {
    "key": "in_use", "game": "game_runs", "full_screen": "full_screen", "battery": "on_battery",
    "metered": "metered",
}  # fmt: skip
"""What must be the reason for a stop after each act."""

ENDS: Final = {"game": "game_ends", "full_screen": "full_screen_ends", "battery": "mains",
               "metered": "unmetered"}  # fmt: skip
KEY_S: Final = 300.0
"""`away.after_minutes` of the defaults."""

CALM_S: Final = 15.0
SLOW_S: Final = 2.0 * PACE
"""A cause may be seen to end so much later; a stop begins within this or is late."""


class _Same:
    """A probe that always sees the same."""

    def __init__(self, name: str, fact: object) -> None:
        self.name = name
        self.periods_s: dict[Pace, float] = {"off": 60.0, "waiting": 60.0, "lending": 60.0}
        self._fact = fact

    def look(self) -> object:
        return self._fact


def _machine(environment: dict[str, str], folder: Path) -> Machine:
    cool = (Sensor("core", "core", 60.0),)
    cards = {
        "cpu": CardFacts(0, "cpu", sensors=(Sensor("package", "processor", 50.0),)),
        "GPU-1": CardFacts(0, "cuda", sensors=cool, memory_bytes=12 * 2**30, memory_used_bytes=0),
    }
    polled: tuple[Polled, ...] = (
        _Same("terminals", Input(5.0)), ProcessProbe(list), _Same("power", PowerFacts()),
        _Same("load", LoadFacts(3.0, 2**34, 2**37)), _Same("cards", cards),
    )  # fmt: skip
    return Machine(
        time.time, folder, lambda: [], lambda: [], lambda: [], lambda: (0, 0),
        lambda: environment, polled, delays_sleep=False,
    )  # fmt: skip


class _Hour:
    """The acts, one after another."""

    def __init__(
        self, recorder: Recorder, stubs: StubServices, manager: Manager, display: str
    ) -> None:
        self.recorder, self.stubs, self.manager = recorder, stubs, manager
        self.display = display
        self.games: list[Any] = []
        self.begin_s = time.monotonic()

    async def at(self, second: float) -> None:
        await asyncio.sleep(max(0.0, self.begin_s + second - time.monotonic()))

    async def play(self) -> None:
        await self.at(16)
        for _ in range(3):
            self.recorder.mark("key")
            await asyncio.to_thread(type_key, self.display)
            await asyncio.sleep(0.7)
        await self.at(32)
        self._gamemode("game", "GameRegistered", [[os.getpid(), "/g"]])
        await self.at(36)
        self._gamemode("game_ends", "GameUnregistered", [])
        await self.at(40)
        await self._process("game", "reaper", "SteamLaunch", "AppId=480", until_s=44)
        self.recorder.mark("game_ends")
        await self.at(48)
        await self._full_screen()
        await self.at(56)
        self._supply("battery", UPOWER, OnBattery=Variant("b", True))
        await self.at(60)
        self._supply("mains", UPOWER, OnBattery=Variant("b", False))
        await self.at(64)
        self._supply("metered", NETWORK, Metered=Variant("u", 1))
        await self.at(68)
        self._supply("unmetered", NETWORK, Metered=Variant("u", 2))
        await self._noise()
        await self.at(104)
        self.recorder.mark("key")
        await asyncio.to_thread(type_key, self.display)

    def _gamemode(self, act: str, member: str, games: list[Any]) -> None:
        self.recorder.mark(act)
        self.games[:] = games
        self.stubs.signal("/x", f"{GAMEMODE}.{member}", "io", os.getpid(), "/g")

    def _supply(self, act: str, where: tuple[str, str], **values: Variant) -> None:
        self.recorder.mark(act)
        self.stubs.change(where[0], where[1], **values)

    async def _process(self, act: str, *words: str, until_s: float) -> None:
        """A process with this command line."""
        self.recorder.mark(act)
        # A shell that does nothing but wait, under another name.
        script = "while :; do sleep 0.1; done"
        command = [words[0], "-c", script, *words[1:]]
        process = subprocess.Popen(command, executable="/bin/bash")
        try:
            await self.at(until_s)
        finally:
            process.kill()
            process.wait()

    async def _full_screen(self) -> None:
        full = self.manager.atoms["_NET_WM_STATE_FULLSCREEN"]
        root, window = self.manager.x.root, self.manager.window
        await self.manager.put(root, "_NET_ACTIVE_WINDOW", 33, window)
        self.recorder.mark("full_screen")
        await self.manager.put(window, "_NET_WM_STATE", 4, full)
        await self.at(52)
        self.recorder.mark("full_screen_ends")
        await self.manager.put(window, "_NET_WM_STATE", 4)

    async def _noise(self) -> None:
        """What happens on desktops all the time, and stops nothing."""
        await self.at(72)
        for number in range(20):
            self.stubs.signal(
                "/org/freedesktop/Notifications",
                "org.freedesktop.Notifications.NotificationClosed",
                "uu",
                number,
                2,
            )
            self.stubs.change(*NETWORK, PrimaryConnectionType=Variant("s", "802-3-ethernet"))
            self.stubs.signal("/x", f"{GAMEMODE}.Unrelated", "io", number, "/g")
            await asyncio.sleep(0.1)
        await self.manager.put(self.manager.x.root, "_NET_ACTIVE_WINDOW", 33, 0)
        second = 76.0
        for words in (("steam", "-silent"), ("steamwebhelper",), ("legendary", "list"),
                      ("gamescopectl",), ("python3", "train.py", "SteamLaunch")):  # fmt: skip
            second += 4
            await self._process("noise", *words, until_s=second)


async def _record(place: Path, address: str, environment: dict[str, str], folder: Path) -> None:
    both = {"DBUS_SYSTEM_BUS_ADDRESS": address, "DBUS_SESSION_BUS_ADDRESS": address}
    manager = Manager(await XConnection.open(environment))
    await manager.begin()
    await manager.put(manager.window, "_NET_WM_PID", 6, os.getpid())
    async with services(address) as stubs:
        with place.open("wb") as file:
            recorder = Recorder(file, _machine({**environment, **both}, folder), PACE)
            hour = _Hour(recorder, stubs, manager, environment["DISPLAY"])
            await _prepare(stubs, hour)
            acts = asyncio.ensure_future(hour.play())
            await recorder.run(SPAN_S)
            await acts
    manager.x.close()


async def _prepare(stubs: StubServices, hour: _Hour) -> None:
    manager = "org.freedesktop.login1.Manager"
    own = ["1", os.geteuid(), "owner", "seat0", SESSION]
    stubs.answers[manager, "ListSessions"] = answers("a(susso)", [own])
    stubs.answers[manager, "ListInhibitors"] = answers("a(ssssuu)", [])
    stubs.properties[SESSION, "org.freedesktop.login1.Session"] = {
        "Class": Variant("s", "user"), "Type": Variant("s", "x11"),
        "State": Variant("s", "active"), "Active": Variant("b", True),
        "Remote": Variant("b", False), "LockedHint": Variant("b", False),
        "IdleHint": Variant("b", False), "IdleSinceHint": Variant("t", 0),
    }  # fmt: skip
    stubs.properties[UPOWER] = {"OnBattery": Variant("b", False)}
    stubs.properties[NETWORK] = {
        "Metered": Variant("u", 2), "PrimaryConnectionType": Variant("s", "802-3-ethernet"),
    }  # fmt: skip
    stubs.answers[GAMEMODE, "ListGames"] = lambda _: ("a(io)", [hour.games])
    for name in ("org.freedesktop.login1", "org.freedesktop.UPower",
                 "org.freedesktop.NetworkManager", GAMEMODE):  # fmt: skip
        await stubs.own(name)


def given_back_s(
    recording: Recording, decisions: Sequence[Decision], card: int
) -> list[tuple[str, float]]:
    """After each act that must stop a card: how long it was until it did, in real seconds.

    Acts that come while it is stopped for the same reason are left out. One that stops nothing has
    an endless time.
    """
    found = []
    own = [each for each in decisions if each.card == card]
    for act in recording.acts:
        code = CODES.get(act.what, "")
        before = [each for each in own if each.at_s <= act.at_s]
        if not code or (before and before[-1].ruling == "STOP" and code in before[-1].codes):
            continue
        after = (
            each.at_s - act.at_s for each in own
            if each.at_s >= act.at_s and each.ruling == "STOP" and code in each.codes
        )  # fmt: skip
        found.append((act.what, next(after, float("inf")) / recording.pace))
    return found


def false_stops(recording: Recording, decisions: Sequence[Decision], card: int) -> list[Decision]:
    """Stops of a card that no act explains."""
    spans = [(0.0, KEY_S + SLOW_S)]  # whoever started the machine has just used it
    for act in recording.acts:
        if act.what == "key":
            spans.append((act.at_s, act.at_s + KEY_S + SLOW_S))
        elif act.what in ENDS:
            ends = (
                each.at_s for each in recording.acts
                if each.what == ENDS[act.what] and each.at_s > act.at_s
            )  # fmt: skip
            spans.append((act.at_s, next(ends) + CALM_S + SLOW_S))
    return [
        each for each in decisions
        if each.card == card and each.ruling == "STOP"
        and not any(begin_s <= each.at_s <= end_s for begin_s, end_s in spans)
    ]  # fmt: skip


def record(place: Path) -> Recording:
    """Records such an hour into a file, in two minutes."""
    with (
        tempfile.TemporaryDirectory(prefix="hour-") as name,
        private_bus() as address,
        x_server() as environment,
    ):
        asyncio.run(_record(place, address, environment, Path(name)))
    return read(place.read_bytes().splitlines())


def decided(recording: Recording) -> list[list[object]]:
    """What the rules decide by default, as the golden file has it."""
    return [
        [each.at_s, each.card, each.ruling, *each.codes] for each in replay(recording, choices())
    ]


def main(arguments: Sequence[str]) -> None:
    """With `--decide` only the decisions are written anew."""
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    recording = read(PLACE.read_bytes().splitlines()) if arguments else record(PLACE)
    lines = ",\n".join(json.dumps(each) for each in decided(recording))
    DECIDED.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
