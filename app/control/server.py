"""The agent's end of the control socket.

Owns: the socket (in a directory of mode 0700, peers' user ids checked), the connections, their
bounds. Must not: decide anything: requests go to a handler, which answers with a message.

A system agent may serve a group: its members may do all, and everybody else may read.

What takes seconds (a measurement, a letter, the doctor) is answered when it is done, and what comes
after it on the same connection does not wait: above all a pause.

A program that subscribed and does not read is let go; it can come back and take a snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from app.control.board import Board
from app.control.messages import (
    MAX_LINE_BYTES,
    SLOW_VERBS,
    VERSION,
    Accepted,
    Answer,
    Doctor,
    Hello,
    History,
    Item,
    Preview,
    Refused,
    Request,
    SessionReport,
    SettingsDescribe,
    SettingsGet,
    Show,
    ShowPage,
    Status,
    Subscribe,
    Welcome,
    decode_request,
    encode,
)
from app.control.paths import SOCKET_NAME, peer_groups, peer_user, socket_path
from gpugoblin.errors import AgentError, GoblinError

__all__ = ["ControlServer"]

MAX_BACKLOG_BYTES: Final = 1024 * 1024
MAX_CONNECTIONS: Final = 32

READ_VERBS: Final = (
    Hello, Status, Subscribe, SettingsGet, SettingsDescribe, Preview, History, Doctor,
    SessionReport,
)  # fmt: skip
"""What those may ask who may only read, and tell of their own session. Logs are not among them:
they may name programs."""

MAX_SLOW: Final = 4
"""So many of `SLOW_VERBS` are answered at once for a connection."""
MAX_SLOW_HELD: Final = 64
"""So many are held in all; until one is done nothing more is read, a pause included. A window asks
such a thing whenever a page comes to the front, and a coordinator that is away costs each half a
minute."""

Sessions = Callable[[int, int, SessionReport | None], None]
"""Takes a connection's number, its user id, and what is seen there; None when it has ended."""

Handler = Callable[[Request], Awaitable[Answer]]


class ControlServer:
    """Serves one directory until `close`.

    Args:
        directory: of mode 0700; made by the caller.
        build: told to programs.
        handler: answers requests other than hello, status, subscribe and show; may raise
            GoblinError.
        sessions: takes what helpers in desktop sessions say.
        group: the id of a group whose members are served as the owner is, while all others may
            read; None: nobody but the owner and root.
    """

    def __init__(
        self,
        directory: Path,
        build: str,
        handler: Handler,
        group: int | None = None,
        sessions: Sessions = lambda *_: None,
    ) -> None:
        self._group = group
        self._sessions = sessions
        self._count = 0
        self._directory = directory
        self._build = build
        self._handler = handler
        self._board = Board()
        self._server: asyncio.Server | None = None
        self._subscribers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Binds the socket; a stale one is replaced.

        Raises:
            AgentError: `control_busy`: a living agent listens there.
        """
        listener = _bound(self._directory, 0o600 if self._group is None else 0o666)
        self._server = await asyncio.start_unix_server(
            self._connected, sock=listener, limit=MAX_LINE_BYTES
        )

    async def close(self) -> None:
        """Closes everything and removes the socket."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        (self._directory / SOCKET_NAME).unlink(missing_ok=True)
        self._server = None

    def show(self, items: tuple[Item, ...]) -> None:
        """Puts items up and tells the subscribers what changed."""
        delta = self._board.show(items)
        if delta is None:
            return
        line = encode(delta)
        for writer in list(self._subscribers):
            if writer.transport.get_write_buffer_size() > MAX_BACKLOG_BYTES:
                self._subscribers.discard(writer)
                writer.transport.abort()
            else:
                writer.write(line)

    def _show_page(self, request: Show) -> Accepted:
        line = encode(ShowPage(request.page))
        for writer in self._subscribers:
            writer.write(line)
        return Accepted(request.request, "", bool(self._subscribers))

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = writer.get_extra_info("socket")
            is_owner = peer_user(connection) in (0, os.geteuid()) or (
                self._group is not None and self._group in peer_groups(connection)
            )
            is_welcome = is_owner or self._group is not None
            if is_welcome and len(self._connections) <= MAX_CONNECTIONS:
                await self._talk(reader, writer, is_owner)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the program went away
        finally:
            self._subscribers.discard(writer)
            writer.close()

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_owner: bool
    ) -> None:
        is_known = False
        self._count += 1
        number, user = self._count, peer_user(writer.get_extra_info("socket"))
        slow: set[asyncio.Task[None]] = set()
        turns = asyncio.Semaphore(MAX_SLOW)
        try:
            while (line := await _line(reader)) is not None:
                try:
                    request = decode_request(line)
                    if not is_known and not isinstance(request, Hello):
                        raise AgentError("control_malformed", reason="the first line must be Hello")
                except AgentError as error:
                    await _send(writer, _refusal(0, error))
                    return
                is_known = True
                if not is_owner and not isinstance(request, READ_VERBS):
                    refusal = _refusal(request.request, AgentError("control_readonly"))
                    await _send(writer, refusal)
                elif isinstance(request, SessionReport):
                    self._sessions(number, user, request)
                    await _send(writer, Accepted(request.request, "", True))
                elif isinstance(request, SLOW_VERBS):
                    if len(slow) >= MAX_SLOW_HELD:
                        await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
                    work = self._reply(request, writer, turns)
                    task = asyncio.get_running_loop().create_task(work)
                    slow.add(task)
                    task.add_done_callback(slow.discard)
                else:
                    await _send(writer, await self._answer(request, writer))
            if slow:
                await asyncio.wait(slow)
        finally:
            self._sessions(number, user, None)
            left = list(slow)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    async def _reply(
        self, request: Request, writer: asyncio.StreamWriter, turns: asyncio.Semaphore
    ) -> None:
        async with turns:
            with contextlib.suppress(ConnectionError):  # the program went away
                await _send(writer, await self._answer(request, writer))

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> Answer:
        if isinstance(request, Hello):
            return Welcome(VERSION, self._build)  # a program of another version says so and goes
        if isinstance(request, Status):
            return self._board.snapshot(request.request)
        if isinstance(request, Subscribe):
            self._subscribers.add(writer)
            return self._board.snapshot(request.request)
        if isinstance(request, Show):
            return self._show_page(request)
        try:
            return await self._handler(request)
        except GoblinError as error:
            return _refusal(request.request, error)


def _refusal(request: int, error: GoblinError) -> Refused:
    return Refused(request, error.code, error.what[:1000], error.next_step[:1000])


async def _line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; None at the end and for a line that is too long."""
    try:
        line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    return line


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(encode(answer))
    await writer.drain()


def _bound(directory: Path, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_path(directory) as path:
            if _is_served(path):
                raise AgentError("control_busy", path=directory / SOCKET_NAME)
            (directory / SOCKET_NAME).unlink(missing_ok=True)
            listener.bind(path)
        (directory / SOCKET_NAME).chmod(mode)
        listener.listen(16)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
