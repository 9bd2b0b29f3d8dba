"""All probes together, on a private bus with stub services: what is told, and what hangs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, Variant

from app.policy.snapshot import PlayFacts, PowerFacts, Snapshot
from app.probes.board import FactBoard
from app.probes.gather import Machine, Probes
from app.probes.idle.sessions import SessionTold
from app.probes.idle.source import Input
from app.probes.polls import Pace, Polled
from tests.helpers.desktop import Answer, StubServices, answers, private_bus, services

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="no dbus-daemon on this machine"
)
LOGIND, MANAGER = "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
SESSION, SESSION_PATH = "org.freedesktop.login1.Session", f"{LOGIND}/session/_31"
NETWORK = ("/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager")
UPOWER = ("/org/freedesktop/UPower", "org.freedesktop.UPower")
GAMEMODE = "com.feralinteractive.GameMode"
MUTTER = "org.gnome.Mutter.IdleMonitor"


class Seen:
    """A probe that always sees the same."""

    def __init__(self, name: str, fact: object) -> None:
        self.name = name
        self.periods_s: dict[Pace, float] = dict.fromkeys(("off", "waiting", "lending"), 60.0)  # type: ignore[arg-type]
        self._fact = fact

    def look(self) -> object:
        return self._fact


class Desk:
    """A machine on a private bus, its board and its probes."""

    def __init__(self, stubs: StubServices, board: FactBoard, probes: Probes) -> None:
        self.stubs = stubs
        self.board = board
        self.probes = probes

    @property
    def now(self) -> Snapshot:
        return self.board.snapshot(time.time(), time.monotonic(), [])

    async def until(self, holds: Callable[[Snapshot], bool]) -> Snapshot:
        async with asyncio.timeout(20):
            while not holds(self.now):
                await asyncio.sleep(0.01)
        return self.now


def session(**changes: Any) -> dict[str, Variant]:
    values = {
        "Class": Variant("s", "user"), "Type": Variant("s", "wayland"),
        "State": Variant("s", "active"), "Active": Variant("b", True),
        "Remote": Variant("b", False), "LockedHint": Variant("b", False),
        "IdleHint": Variant("b", False), "IdleSinceHint": Variant("t", 0),
    }  # fmt: skip
    return {**values, **changes}


def logind(stubs: StubServices, listed: list[Any], inhibitors: list[Any]) -> None:
    stubs.answers[MANAGER, "ListSessions"] = answers("a(susso)", listed)
    stubs.answers[MANAGER, "ListInhibitors"] = lambda _: ("a(ssssuu)", [inhibitors])


OWN = ["1", os.geteuid(), "owner", "seat0", SESSION_PATH]


def run(script: Callable[[Desk], Awaitable[None]], tmp_path: Path,
        prepare: Callable[[StubServices], None], *names: str) -> None:  # fmt: skip
    async def whole(address: str) -> None:
        async with services(address) as stubs:
            prepare(stubs)
            for name in names:
                await stubs.own(name)
            board = FactBoard(lambda: None, lambda: UTC)
            polled: tuple[Polled, ...] = (
                Seen("terminals", Input(5.0)), Seen("play", PlayFacts()),
                Seen("power", PowerFacts()),
            )  # fmt: skip
            environment = {
                "DBUS_SYSTEM_BUS_ADDRESS": address, "DBUS_SESSION_BUS_ADDRESS": address,
            }  # fmt: skip
            probes = Probes(
                board,
                Machine(
                    time.time, tmp_path, lambda: [], lambda: [], lambda: [], lambda: (1, 2),
                    lambda: environment, polled,
                ),
            )  # fmt: skip
            probes.start()
            try:
                await script(Desk(stubs, board, probes))
            finally:
                await probes.close()

    with private_bus() as address:
        asyncio.run(whole(address))


def test_a_bus_without_services_is_a_server(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        found = await desk.until(lambda now: None not in (now.idle, now.power, now.network))
        assert found.idle is not None
        assert found.network is not None
        assert (found.idle.last_input_s, found.network.metered) == (5.0, "untold")
        assert (found.network.day_bytes, found.network.month_bytes) == (1, 2)
        assert desk.board.reports["network"].health == "absent"

    run(script, tmp_path, lambda stubs: None)


def test_gamemode_is_heard_at_once(tmp_path: Path) -> None:
    games: list[Any] = []

    def prepare(stubs: StubServices) -> None:
        stubs.answers[GAMEMODE, "ListGames"] = lambda _: ("a(io)", [games])

    async def script(desk: Desk) -> None:
        await desk.until(lambda now: now.play == PlayFacts())
        games.append([os.getpid(), "/game/1"])
        desk.stubs.signal("/x", f"{GAMEMODE}.GameRegistered", "io", os.getpid(), "/game/1")
        found = await desk.until(lambda now: now.play is not None and bool(now.play.games))
        assert found.play is not None
        games.clear()
        desk.stubs.signal("/x", f"{GAMEMODE}.GameUnregistered", "io", os.getpid(), "/game/1")
        await desk.until(lambda now: now.play == PlayFacts())

    run(script, tmp_path, prepare, GAMEMODE)


def test_a_desktop_is_known_by_its_sessions_and_its_monitor(tmp_path: Path) -> None:
    idle_ms = [0]

    def prepare(stubs: StubServices) -> None:
        logind(stubs, [OWN], [])
        stubs.properties[SESSION_PATH, SESSION] = session()

    async def script(desk: Desk) -> None:
        found = await desk.until(lambda now: "no source speaks" in now.why_unknown.get("idle", ""))
        assert found.idle is None
        desk.stubs.answers[MUTTER, "GetIdletime"] = lambda _: ("t", [idle_ms[0]])
        desk.stubs.answers[MUTTER, "AddIdleWatch"] = answers("u", 1)
        desk.stubs.answers[MUTTER, "AddUserActiveWatch"] = answers("u", 2)
        await desk.stubs.own(MUTTER)
        await desk.until(lambda now: now.idle is not None and now.idle.is_active)
        idle_ms[0] = 2000
        desk.stubs.signal("/m", f"{MUTTER}.WatchFired", "u", 1)
        found = await desk.until(lambda now: now.idle is not None and not now.idle.is_active)
        assert found.idle is not None
        assert found.idle.source == "mutter"
        while (MUTTER, "AddUserActiveWatch") not in desk.stubs.calls:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        desk.stubs.signal("/m", f"{MUTTER}.WatchFired", "u", 2)
        await desk.until(lambda now: now.idle is not None and now.idle.is_active)

    run(script, tmp_path, prepare, "org.freedesktop.login1")


def test_locks_films_and_sleep(tmp_path: Path) -> None:
    inhibitors: list[Any] = []

    def prepare(stubs: StubServices) -> None:
        logind(stubs, [OWN], inhibitors)
        stubs.properties[SESSION_PATH, SESSION] = session(
            IdleHint=Variant("b", True), IdleSinceHint=Variant("t", 7_000_000)
        )

    async def script(desk: Desk) -> None:
        found = await desk.until(lambda now: now.idle is not None)
        assert found.idle is not None
        assert (found.idle.last_input_s, found.idle.source) == (7.0, "logind")
        inhibitors.append(["sleep:idle", "Player", "a film", "block", 1000, 7])
        desk.stubs.change(SESSION_PATH, SESSION, LockedHint=Variant("b", True))
        found = await desk.until(lambda now: now.idle is not None and bool(now.idle.awake_for))
        assert found.idle is not None
        assert found.idle.locked_since_s is not None
        desk.stubs.signal(LOGIND, f"{MANAGER}.PrepareForSleep", "b", True)
        await desk.until(lambda now: now.is_asleep)
        desk.stubs.signal(LOGIND, f"{MANAGER}.PrepareForSleep", "b", False)
        await desk.until(lambda now: not now.is_asleep)

    run(script, tmp_path, prepare, "org.freedesktop.login1")


def test_f200_f246_sleep_is_delayed_and_never_forbidden(tmp_path: Path) -> None:
    asked: list[list[Any]] = []

    def prepare(stubs: StubServices) -> None:
        logind(stubs, [], [])

        def refuse(message: Message) -> tuple[str, list[Any]]:
            asked.append(message.body)
            return "s", ["no descriptor: permission denied"]

        stubs.answers[MANAGER, "Inhibit"] = refuse

    async def script(desk: Desk) -> None:
        found = await desk.until(lambda now: now.idle is not None)
        assert found.idle is not None  # a delay that is refused keeps nothing from being known
        desk.stubs.signal(LOGIND, f"{MANAGER}.PrepareForSleep", "b", True)
        await desk.until(lambda now: now.is_asleep)

    run(script, tmp_path, prepare, "org.freedesktop.login1")
    assert {(what, mode) for what, _, _, mode in asked} == {("sleep", "delay")}


def test_the_word_of_a_session_holds_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.probes.gather.FRESH_S", 0.3)

    def prepare(stubs: StubServices) -> None:
        logind(stubs, [["1", os.geteuid() + 1, "other", "seat0", SESSION_PATH]], [])
        stubs.properties[SESSION_PATH, SESSION] = session()

    async def script(desk: Desk) -> None:
        found = await desk.until(lambda now: "in front" in now.why_unknown.get("idle", ""))
        assert found.idle is None
        told = SessionTold(os.geteuid() + 1, Input(9.0))
        desk.probes.put_session(1, told)
        desk.probes.put_session(1, told)
        assert desk.now.idle is not None
        await desk.until(lambda now: now.idle is None)  # silent
        desk.probes.put_session(1, told)
        assert desk.now.idle is not None
        desk.probes.put_session(1, None)  # gone
        assert desk.now.idle is None

    run(script, tmp_path, prepare, "org.freedesktop.login1")


def test_power_and_network_services_push(tmp_path: Path) -> None:
    def prepare(stubs: StubServices) -> None:
        stubs.properties[UPOWER] = {
            "OnBattery": Variant("b", False), "LidIsClosed": Variant("b", False),
        }  # fmt: skip
        stubs.properties[NETWORK] = {
            "Metered": Variant("u", 4),
            "PrimaryConnectionType": Variant("s", "802-11-wireless"),
        }

    async def script(desk: Desk) -> None:
        found = await desk.until(
            lambda now: now.network is not None and now.network.metered == "guess_no"
        )
        assert found.network is not None
        assert found.network.kind == "wireless"
        desk.stubs.change(*UPOWER, OnBattery=Variant("b", True))
        await desk.until(lambda now: now.power is not None and now.power.on_battery)
        desk.stubs.change(*NETWORK, Metered=Variant("u", 3))
        await desk.until(lambda now: now.network is not None and now.network.metered == "guess_yes")

    run(script, tmp_path, prepare, "org.freedesktop.UPower", "org.freedesktop.NetworkManager")


HOSTILE: list[tuple[str, Answer | None]] = [
    ("another shape", answers("s", "not a dictionary")),
    ("does not answer", lambda _: None),
    ("another shape", answers("a{sv}", {"Metered": Variant("s", "x")})),
]


@pytest.mark.parametrize(("words", "answer"), HOSTILE)
def test_a_service_that_is_there_and_makes_no_sense_is_unknown(
    tmp_path: Path, words: str, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.probes.desktop.bus.CALL_LIMIT_S", 0.3)

    def prepare(stubs: StubServices) -> None:
        stubs.answers["org.freedesktop.DBus.Properties", "GetAll"] = answer
        stubs.answers[MANAGER, "ListSessions"] = answer
        stubs.answers[GAMEMODE, "ListGames"] = answer

    async def script(desk: Desk) -> None:
        found = await desk.until(
            lambda now: (
                {"idle", "play", "power", "network"} <= now.why_unknown.keys() and now.play is None
            )
        )
        assert (found.idle, found.play, found.power, found.network) == (None, None, None, None)
        lines = " ".join(found.why_unknown.values())
        assert "answer" in lines or "makes sense" in lines
        assert words

    run(script, tmp_path, prepare, "org.freedesktop.login1", "org.freedesktop.UPower",
        "org.freedesktop.NetworkManager", GAMEMODE)  # fmt: skip


def test_what_comes_and_goes_is_told_where_it_may_be_a_card() -> None:
    told: list[str] = []
    machine = Machine(
        time.time, Path("/"), tuple, tuple, tuple, lambda: (0, 0), plugged=lambda: told.append("!")
    )
    probes = Probes(FactBoard(lambda: None, lambda: UTC), machine)
    for subsystem, count in (("drm", 1), ("hwmon", 1), ("power_supply", 1), ("nvidia", 2)):
        probes._plugged(subsystem)
        assert len(told) == count
