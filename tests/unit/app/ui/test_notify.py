"""Notifications on a real bus: replaced, counted by the day, clicked; and without a server."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from dbus_fast.aio import MessageBus
from pytestqt.qtbot import QtBot

from app.ui.notify import PLACE, SERVICE, Budget, Notifier
from tests.helpers.desktop import StubServices, private_bus

pytestmark = pytest.mark.skipif(
    shutil.which("dbus-daemon") is None, reason="Debian's package dbus-daemon is missing"
)


class Server:
    """A notification server in a thread of its own, on a private bus."""

    def __init__(self, address: str) -> None:
        self.told: list[Any] = []
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stub: StubServices | None = None

    def __enter__(self) -> Server:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result(20.0)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stub is not None
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(20.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20.0)
        self._loop.close()

    def signal(self, member: str, signature: str, *body: Any) -> None:
        assert self._stub is not None
        self._loop.call_soon_threadsafe(
            self._stub.signal, PLACE, f"{SERVICE}.{member}", signature, *body
        )

    async def _begin(self) -> None:
        bus = await MessageBus(bus_address=self._address).connect()
        self._stub = StubServices(bus)
        self._stub.answers[SERVICE, "Notify"] = self._notify
        await self._stub.own(SERVICE)

    async def _leave(self) -> None:
        assert self._stub is not None
        self._stub.bus.disconnect()
        await self._stub.bus.wait_for_disconnect()

    def _notify(self, message: Any) -> tuple[str, list[Any]]:
        self.told.append(message.body)
        return "u", [7]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with private_bus() as address:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        yield address


def budget(tmp_path: Path, days: list[date] | None = None) -> Budget:
    days = days or [date(2026, 12, 1)]
    return Budget(tmp_path / "told", lambda: days[-1])


def test_a_second_one_replaces_the_first_and_a_click_is_heard(
    qapp: object, bus: str, tmp_path: Path, qtbot: QtBot, until: Callable[..., None]
) -> None:
    with Server(bus) as server:
        notifier = Notifier(budget(tmp_path))
        assert notifier.tell("trouble", "A card cannot lend", "why")
        until(lambda: len(server.told) == 1)
        name, replaced, icon, title, line, actions, hints, _ = server.told[0]
        assert (name, replaced, title, line) == ("gpugoblin", 0, "A card cannot lend", "why")
        assert icon == hints["desktop-entry"].value == "org.gpugoblin.App"
        assert actions[0] == "default"
        until(lambda: notifier._number == 7)
        assert notifier.tell("setup", "t", "l")
        until(lambda: len(server.told) == 2)
        assert server.told[1][1] == 7, "it must replace the one before"
        with qtbot.waitSignal(notifier.clicked, timeout=20_000):
            server.signal("ActionInvoked", "us", 7, "default")
        notifier.close()


def test_without_a_server_it_is_said_otherwise(
    qapp: object, bus: str, tmp_path: Path, qtbot: QtBot
) -> None:
    notifier = Notifier(budget(tmp_path))
    with qtbot.waitSignal(notifier.untold, timeout=20_000) as untold:
        notifier.tell("trouble", "title", "line")
    assert untold.args == ["title", "line"]
    notifier.close()


def test_one_a_day_and_some_only_once(tmp_path: Path) -> None:
    days = [date(2026, 12, 1)]
    first = budget(tmp_path, days)
    assert first.spend("trouble")
    assert not first.spend("trouble")
    assert first.spend("no_tray")
    assert not budget(tmp_path, days).spend("trouble"), "a restart begins no new day"
    days.append(date(2026, 12, 2))
    assert first.spend("trouble")
    assert not first.spend("no_tray"), "a desktop without a tray is told of once"


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{" * 9000])
def test_a_broken_file_of_what_was_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "told").write_bytes(data)
    assert budget(tmp_path).spend("trouble")
