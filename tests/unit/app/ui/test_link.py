"""The connection follows the agent, survives its absence, and distrusts what it says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.control.messages import (
    VERSION,
    Answer,
    CardItem,
    Doctor,
    SettingsAre,
    SettingsGet,
    Snapshot,
    Status,
    Welcome,
    encode,
)
from app.control.paths import SOCKET_NAME
from app.ui import link as module
from app.ui.link import Link
from tests.helpers.served_agent import ServedAgent
from tests.unit.app.ui.conftest import WAIT_MS

Until = Callable[[Callable[[], bool]], None]


def test_items_follow_the_agent(link: Link, served: ServedAgent, until: Until) -> None:
    assert link.is_connected
    served.step(1)
    served.step(2)
    until(lambda: _doing(link) == "computing")


def test_answers_come_to_who_asked(link: Link, until: Until) -> None:
    answers: list[Answer] = []
    assert link.ask(SettingsGet(link.number()), answers.append)
    until(lambda: bool(answers))
    assert isinstance(answers[0], SettingsAre)


class _Window(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Answer] = []

    def listen(self, answer: Answer) -> None:
        self.heard.append(answer)
        self.setObjectName("heard")  # an error of Qt's where the window is gone


def test_a_window_that_is_gone_is_not_answered(link: Link, until: Until) -> None:
    gone, there = _Window(), _Window()
    link.ask(SettingsGet(link.number()), gone.listen)
    link.ask(SettingsGet(link.number()), there.listen)
    shiboken6.delete(gone)
    until(lambda: bool(there.heard))
    assert gone.heard == []


def test_without_an_agent_it_says_so_and_tries_on(
    qapp: object, short_path: Path, qtbot: QtBot, until: Until
) -> None:
    found = Link(short_path / "control")
    with qtbot.waitSignal(found.away, timeout=WAIT_MS) as heard:
        found.open()
    assert "agent" in str(heard.args)
    assert not found.ask(Status(1))
    with ServedAgent("desktop", short_path / "control"):
        until(lambda: bool(found.items))
        found.close()


def test_it_comes_back_after_the_agent_did(
    qapp: object, short_path: Path, qtbot: QtBot, until: Until
) -> None:
    found = Link(short_path / "control")
    with ServedAgent("desktop", short_path / "control"):
        found.open()
        until(lambda: bool(found.items))
    until(lambda: not found.is_connected)
    assert found.items == {}
    with ServedAgent("laptop", short_path / "control"):
        until(lambda: bool(found.items))
        found.close()


@pytest.mark.parametrize(
    "says",
    [
        b"nonsense\n",
        b"\xff\xfe\n",
        b'{"type":"Welcome","version":99,"build":"x"}\n',
        encode(Welcome(VERSION, "x")) + b'{"type":"Delta","number":7,"changed":[],"removed":[]}\n',
        b'{"type":"Welcome"' + b" " * 2_000_000,
        b"",
    ],
    ids=["words", "bytes", "version", "gap", "endless", "silence"],
)
def test_an_agent_that_lies_is_left(
    qapp: object, short_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, says: bytes
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1_000_000)
    with _liar(short_path, says) as directory:
        found = Link(directory)
        with qtbot.waitSignal(found.away, timeout=WAIT_MS):
            found.open()
        assert found.items == {}
        found.close()


@pytest.mark.parametrize("hangs_at", ["hello", "later"])
def test_an_agent_that_hangs_is_said_and_left(
    qapp: object, short_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, hangs_at: str
) -> None:
    """It listens, as a stopped process does, and says nothing any more."""
    monkeypatch.setattr(module, "PATIENCE_MS", 150)
    says = (
        encode(Welcome(VERSION, "x")) + encode(Snapshot(1, 0, ())) if hangs_at == "later" else b""
    )
    with _liar(short_path, says, stays=True) as directory:
        found = Link(directory)
        if hangs_at == "later":
            with qtbot.waitSignal(found.connected, timeout=WAIT_MS):
                found.open()
            qtbot.wait(300)
            assert found.is_connected, "it owes nothing"
        with qtbot.waitSignal(found.away, timeout=WAIT_MS) as heard:
            found.open()
            found.look()
        assert "does not answer" in str(heard.args)
        assert not found.is_connected
        found.close()


def test_what_takes_long_is_waited_for(
    link: Link, served: ServedAgent, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_MS", 50)
    link._patience.stop()
    link.ask(Doctor(link.number()))
    assert not link._patience.isActive()
    link.ask(Status(link.number()))
    assert link._patience.isActive()


class _liar:
    """Serves one connection with fixed bytes. `stays`: it is silent then, until it is left."""

    def __init__(self, base: Path, says: bytes, *, stays: bool = False) -> None:
        self._stays = stays
        self._directory = base / "control"
        self._directory.mkdir(mode=0o700)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self._directory / SOCKET_NAME))
        self._socket.listen(1)
        self._says = says
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(1000)
            try:
                connection.sendall(self._says)
                while self._stays and connection.recv(1000):
                    pass
            except OSError:
                return  # left before the end, as it should

    def __enter__(self) -> Path:
        self._thread.start()
        return self._directory

    def __exit__(self, *args: object) -> None:
        self._thread.join(20)
        self._socket.close()


def _doing(link: Link) -> str:
    card = link.items.get("card-1")
    return card.doing if isinstance(card, CardItem) else ""
