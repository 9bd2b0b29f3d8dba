"""The helper of a session: real sockets, a real bus, and an agent's own board at the other end."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.control.messages import Accepted, Answer, Request, SessionReport
from app.control.server import ControlServer
from app.probes.idle.source import Input
from app.session import Helper, machine_here
from tests.helpers.desktop import StubServices, private_bus, services

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="no dbus-daemon on this machine"
)
MUTTER = "org.gnome.Mutter.IdleMonitor"
GAMEMODE = "com.feralinteractive.GameMode"
ROOT = Path(__file__).resolve().parents[3]


class Terminals:
    """A machine whose terminals were never used."""

    name = "terminals"

    def __init__(self) -> None:
        self.periods_s: Any = dict.fromkeys(("off", "waiting", "lending"), 60.0)

    def look(self) -> Input:
        return Input(5.0)


class Heard:
    """What a server was told, in order."""

    def __init__(self) -> None:
        self.words: list[tuple[int, SessionReport | None]] = []

    def __call__(self, _: int, user: int, told: SessionReport | None) -> None:
        self.words.append((user, told))

    async def until(self, holds: Callable[[SessionReport | None], bool]) -> SessionReport | None:
        async with asyncio.timeout(20):
            while not self.words or not holds(self.words[-1][1]):
                await asyncio.sleep(0.01)
        return self.words[-1][1]


async def nothing(request: Request) -> Answer:
    return Accepted(0, "", False)


def run(
    folder: Path, prepare: Callable[[StubServices], Awaitable[None]],
    script: Callable[[StubServices, Heard], Awaitable[None]],
) -> Heard:  # fmt: skip
    heard = Heard()

    async def whole(address: str) -> None:
        async with services(address) as stubs:
            await prepare(stubs)
            server = ControlServer(folder, "agent-1", nothing, sessions=heard)
            await server.start()
            environment = {
                "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere",
                "DBUS_SESSION_BUS_ADDRESS": address, "DISPLAY": ":none",
            }  # fmt: skip
            play = machine_here().polled
            assert play is not None
            machine = replace(
                machine_here(), environment=lambda: environment, polled=(Terminals(), play[1])
            )
            task = asyncio.ensure_future(Helper(folder, machine).run())
            try:
                await script(stubs, heard)
            finally:
                task.cancel()
                await asyncio.wait([task])
                await heard.until(lambda told: told is None)
                await server.close()

    folder.chmod(0o700)
    with private_bus() as address:
        asyncio.run(whole(address))
    return heard


def test_b4084_a_session_is_told_at_once_by_peer_credentials(tmp_path: Path) -> None:
    idle_ms = [60_000]
    games: list[Any] = []

    async def prepare(stubs: StubServices) -> None:
        stubs.answers[MUTTER, "GetIdletime"] = lambda _: ("t", [idle_ms[0]])
        stubs.answers[MUTTER, "AddIdleWatch"] = lambda _: ("u", [1])
        stubs.answers[MUTTER, "AddUserActiveWatch"] = lambda _: ("u", [2])
        stubs.answers[GAMEMODE, "ListGames"] = lambda _: ("a(io)", [games])
        await stubs.own(MUTTER)
        await stubs.own(GAMEMODE)

    async def script(stubs: StubServices, heard: Heard) -> None:
        told = await heard.until(lambda told: told is not None and told.is_known)
        assert told is not None
        assert not told.is_active
        stubs.signal("/m", f"{MUTTER}.WatchFired", "u", 2)
        await heard.until(lambda told: told is not None and told.is_active)
        games.append([os.getpid(), "/g"])
        stubs.signal("/x", f"{GAMEMODE}.GameRegistered", "io", os.getpid(), "/g")
        await heard.until(lambda told: told is not None and bool(told.games))

    heard = run(tmp_path, prepare, script)
    assert {user for user, _ in heard.words} == {os.geteuid()}
    assert heard.words[-1][1] is None  # gone: the agent forgets it at once


def test_a_desktop_without_a_source_is_told_as_unknown(tmp_path: Path) -> None:
    async def prepare(stubs: StubServices) -> None:
        pass

    async def script(_: StubServices, heard: Heard) -> None:
        told = await heard.until(lambda told: told is not None and "no source" in told.why)
        assert told is not None
        assert not told.is_known

    run(tmp_path, prepare, script)


def test_an_agent_that_is_away_is_tried_again_and_sigterm_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.session", "--control", str(tmp_path)]
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere", "PATH": "/usr/bin"}
    heard = Heard()

    async def whole() -> None:
        helper = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment)
        await asyncio.sleep(0.5)
        server = ControlServer(tmp_path, "agent-1", nothing, sessions=heard)
        await server.start()
        await heard.until(lambda told: told is not None)
        helper.terminate()
        assert await helper.wait() == 0
        await heard.until(lambda told: told is None)
        await server.close()

    tmp_path.chmod(0o700)
    asyncio.run(whole())


def test_a_change_at_the_moment_of_the_end_does_not_hold_it_up(tmp_path: Path) -> None:
    heard = Heard()

    async def whole() -> None:
        server = ControlServer(tmp_path, "agent-1", nothing, sessions=heard)
        await server.start()
        helper = Helper(tmp_path, replace(machine_here(), polled=(Terminals(),)))
        task = asyncio.ensure_future(helper.run())
        await heard.until(lambda told: told is not None)
        await asyncio.sleep(1)  # it waits for a change now
        helper._changed.set()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=20)
        assert task in done
        assert task.cancelled()
        await server.close()

    tmp_path.chmod(0o700)
    asyncio.run(whole())


def test_it_loads_nothing_that_lends() -> None:
    code = (
        "import sys, app.session; bad = {'numpy', 'cryptography', 'requests', 'sqlite3',"
        " 'app.agent', 'app.sandbox', 'app.host'} & set(sys.modules); sys.exit(str(bad) if bad"
        " else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
