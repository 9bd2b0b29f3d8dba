"""The connection to the agent, on Qt's event loop: it never blocks and comes back by itself.

Owns: one connection, the numbers of requests, and the items as they are now. Must not: interpret an
item; read a file of the agent.

Whatever comes from the socket is bounded before it is kept, and a line that is not of the protocol
ends the connection: the agent may be of another version, or it may be none. One that is silent
though it was asked hangs: that is said, and it is asked again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import shiboken6
from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

from app.control.board import follow
from app.control.messages import (
    MAX_LINE_BYTES,
    SLOW_VERBS,
    VERSION,
    Answer,
    Delta,
    Hello,
    Item,
    Refused,
    Request,
    SettingsGet,
    ShowPage,
    Snapshot,
    Subscribe,
    Welcome,
    decode_answer,
    encode,
)
from app.control.paths import SOCKET_NAME, socket_path
from app.control.texts import _
from gpugoblin.errors import AgentError

__all__ = ["Link"]

FIRST_RETRY_MS: Final = 250
LONGEST_RETRY_MS: Final = 15_000
PATIENCE_MS: Final = 10_000
"""So long may an agent be silent that owes an answer."""
MAX_WAITING_BYTES: Final = 64 * MAX_LINE_BYTES
_READ_BYTES: Final = 64 * 1024

Answered = Callable[[Answer], None]


class Link(QObject):
    """Follows the agent of a control directory.

    Signals:
        changed(dict): all items by key, after each change.
        connected(): the agent answered.
        away(str): there is no agent, or it spoke nonsense; why, for people.
        show_page(str): somebody asks for a page at the front.
    """

    changed = Signal(dict)
    connected = Signal()
    away = Signal(str)
    show_page = Signal(str)

    def __init__(self, directory: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.items: dict[str, Item] = {}
        self.is_connected = False
        self._directory = directory
        self._socket: socket.socket | None = None
        self._reader: QSocketNotifier | None = None
        self._writer: QSocketNotifier | None = None
        self._waiting_in = bytearray()
        self._waiting_out = bytearray()
        self._number = 0
        self._delta = 0
        self._answers: dict[int, Answered] = {}
        self._retry_ms = FIRST_RETRY_MS
        self._owed: set[int] = set()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.open)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.timeout.connect(self._silent)

    def open(self) -> None:
        """Connects, unless it is. Failing, tries again later, ever more rarely."""
        if self._socket is not None:
            return
        self._timer.stop()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            with socket_path(self._directory) as path:
                connection.connect(path)
        except OSError as cause:
            connection.close()
            self._lost(AgentError("control_away", path=self._directory / SOCKET_NAME), cause)
            return
        self._socket = connection
        kinds = QSocketNotifier.Type
        self._reader = QSocketNotifier(connection.fileno(), kinds.Read, self)
        self._reader.activated.connect(self._readable)
        self._writer = QSocketNotifier(connection.fileno(), kinds.Write, self)
        self._writer.setEnabled(False)
        self._writer.activated.connect(self._flush)
        self._patience.start(PATIENCE_MS)
        self._send(Hello(VERSION))

    def look(self) -> None:
        """Asks for a sign of life: an agent that hangs since it spoke last is found out."""
        self.ask(SettingsGet(self.number()))

    def close(self) -> None:
        """Ends the connection and stays away."""
        self._timer.stop()
        self._drop()

    def number(self) -> int:
        """A fresh number for a request."""
        self._number += 1
        return self._number

    def ask(self, request: Request, answered: Answered | None = None) -> bool:
        """Sends a request; `answered` gets its answer, a `Refused` included.

        False, and nothing is sent, while there is no agent.
        """
        if not self.is_connected:
            return False
        number = getattr(request, "request", 0)
        if answered is not None:
            self._answers[number] = answered
        if not isinstance(request, SLOW_VERBS):
            self._owed.add(number)
            if not self._patience.isActive():
                self._patience.start(PATIENCE_MS)
        self._send(request)
        return True

    # -- the socket --------------------------------------------------------------------------

    def _send(self, request: Request) -> None:
        self._waiting_out += encode(request)
        self._flush()

    def _flush(self) -> None:
        if self._socket is None or self._writer is None:
            return
        try:
            while self._waiting_out:
                sent = self._socket.send(self._waiting_out)
                del self._waiting_out[:sent]
        except BlockingIOError:
            pass
        except OSError as cause:
            self._lost(AgentError("control_away", path=self._directory / SOCKET_NAME), cause)
            return
        self._writer.setEnabled(bool(self._waiting_out))

    def _readable(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(AgentError("control_away", path=self._directory / SOCKET_NAME))
            return
        self._waiting_in += data
        try:
            while (end := self._waiting_in.find(b"\n")) >= 0:
                line = bytes(self._waiting_in[:end])
                del self._waiting_in[: end + 1]
                self._take(decode_answer(line))
            if len(self._waiting_in) > MAX_WAITING_BYTES:
                raise AgentError("control_malformed", reason="a line without an end")
        except AgentError as error:
            self._lost(error)
            return
        if self.is_connected and not self._owed:
            self._patience.stop()
        elif self._socket is not None:
            self._patience.start(PATIENCE_MS)

    def _silent(self) -> None:
        self._lost(AgentError("control_silent", path=self._directory / SOCKET_NAME))

    def _take(self, answer: Answer) -> None:
        match answer:
            case Welcome():
                if answer.version != VERSION:
                    raise AgentError("control_version", theirs=answer.version, ours=VERSION)
                self.is_connected = True
                self._retry_ms = FIRST_RETRY_MS
                self.ask(Subscribe(self.number()))
            case Snapshot():
                self._owed.discard(answer.request)
                self._delta = answer.number
                self.items = {item.key: item for item in answer.items}
                self.connected.emit()
                self.changed.emit(self.items)
            case Delta():
                if answer.number != self._delta + 1:
                    raise AgentError("control_malformed", reason="a change is missing")
                self._delta = answer.number
                self.items = follow(self.items, answer)
                self.changed.emit(self.items)
            case ShowPage():
                self.show_page.emit(answer.page)
            case Refused() if not self.is_connected:
                raise AgentError("control_malformed", reason=answer.what)
            case _:
                self._owed.discard(answer.request)
                answered = self._answers.pop(answer.request, None)
                if answered is not None and _listens(answered):
                    answered(answer)

    def _lost(self, error: AgentError, cause: BaseException | None = None) -> None:
        if isinstance(cause, PermissionError):
            error = AgentError("control_refused", path=self._directory / SOCKET_NAME)
        self._drop()
        self.away.emit(_said(error))
        self._timer.start(self._retry_ms)
        self._retry_ms = min(LONGEST_RETRY_MS, self._retry_ms * 2)

    def _drop(self) -> None:
        for notifier in (self._reader, self._writer):
            if notifier is not None:
                notifier.setEnabled(False)
                notifier.deleteLater()
        self._reader = self._writer = None
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self.is_connected = False
        self.items = {}
        self._answers.clear()
        self._owed.clear()
        self._patience.stop()
        self._waiting_in.clear()
        self._waiting_out.clear()


def _said(error: AgentError) -> str:
    """What happened and what to do, in the reader's language."""
    words = {
        "control_away": _(
            "No agent runs for you on this machine. Starting gpugoblin starts one; this window"
            " connects to it by itself."
        ),
        "control_silent": _(
            "The agent runs but does not answer: it hangs, or the machine is very busy. It is asked"
            " again by itself. If that lasts, end the agent and start gpugoblin again."
        ),
        "control_refused": _(
            "The agent belongs to another user. Start gpugoblin as that user, or ask for a place in"
            " the agent's group."
        ),
        "control_version": _(
            "The agent is of another version than this window. Restart both: gpugoblin agent stop"
            " --exit, then start gpugoblin again."
        ),
        "control_malformed": _(
            "What answers in the agent's place does not speak as an agent does. It is asked again"
            " by itself; if that lasts, restart the agent."
        ),
    }
    return words.get(error.code, f"{error.what} {error.next_step}")


def _listens(answered: Answered) -> bool:
    """False where the window that asked is gone: Qt has deleted it, Python keeps its shell."""
    asked = getattr(answered, "__self__", None)
    return not isinstance(asked, QObject) or shiboken6.isValid(asked)
