"""A small blocking client of the control socket, for commands and for tests.

Owns: one connection. Must not: import asyncio, Qt or anything of the agent; it starts in
milliseconds.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from app.control.board import follow
from app.control.messages import (
    MAX_LINE_BYTES,
    VERSION,
    Answer,
    Delta,
    Hello,
    Item,
    Refused,
    Request,
    ShowPage,
    Snapshot,
    Status,
    Subscribe,
    Welcome,
    decode_answer,
    encode,
)
from app.control.paths import SOCKET_NAME, socket_path
from gpugoblin.errors import AgentError

__all__ = ["ControlClient", "ControlRefusal"]

TIMEOUT_S: Final = 30.0
MAX_ANSWER_BYTES: Final = 64 * MAX_LINE_BYTES


class ControlRefusal(AgentError):
    """The agent refused a request, in its own words."""

    def __init__(self, refused: Refused) -> None:
        Exception.__init__(self, f"{refused.what} {refused.next_step} [{refused.code}]")
        self.refused = refused
        self.code = refused.code
        self.what = refused.what
        self.next_step = refused.next_step
        self.fields = {}

    def __reduce__(self) -> tuple[object, ...]:
        return (ControlRefusal, (self.refused,))


class ControlClient:
    """A connection to the agent of a control directory.

    Raises:
        AgentError: `control_away`, `control_refused`, `control_version`.
    """

    def __init__(self, directory: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        self._path = directory / SOCKET_NAME
        self._requests = 0
        try:
            with socket_path(directory) as path:
                self._socket.connect(path)
            self._file = self._socket.makefile("rb")
        except PermissionError as cause:
            self._socket.close()
            raise AgentError("control_refused", path=self._path) from cause
        except OSError as cause:
            self._socket.close()
            raise AgentError("control_away", path=self._path) from cause
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        answer = self._say(Hello(VERSION))
        if not isinstance(answer, Welcome) or answer.version != VERSION:
            theirs = answer.version if isinstance(answer, Welcome) else "unknown"
            raise AgentError("control_version", theirs=theirs, ours=VERSION)

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def number(self) -> int:
        """A fresh number for a request."""
        self._requests += 1
        return self._requests

    def ask(self, request: Request) -> Answer:
        """Sends a request and waits for its answer.

        Raises:
            ControlRefusal: the agent said no.
            AgentError: `control_away`, `control_malformed`.
        """
        answer = self._say(request)
        if isinstance(answer, Refused):
            raise ControlRefusal(answer)
        return answer

    def status(self) -> dict[str, Item]:
        """Everything there is to see, by key."""
        return _items(self.ask(Status(self.number())))

    def follow(self) -> Iterator[dict[str, Item]]:
        """Everything there is to see, now and after each change. Blocks between changes.

        Raises:
            AgentError: `control_malformed`: a delta is missing.
        """
        answer = self.ask(Subscribe(self.number()))
        items = _items(answer)
        number = answer.number if isinstance(answer, Snapshot) else 0
        yield items
        while True:
            delta = self._read()
            if isinstance(delta, ShowPage):
                continue
            if not isinstance(delta, Delta) or delta.number != number + 1:
                raise AgentError("control_malformed", reason="a change is missing")
            number = delta.number
            items = follow(items, delta)
            yield items

    def _say(self, request: Request) -> Answer:
        try:
            self._socket.sendall(encode(request))
        except OSError as cause:
            raise AgentError("control_away", path=self._path) from cause
        return self._read()

    def _read(self) -> Answer:
        try:
            line = self._file.readline(MAX_ANSWER_BYTES)
        except OSError as cause:
            raise AgentError("control_away", path=self._path) from cause
        if not line:
            # Closed without a word: the agent does not talk to this user, or it ended.
            raise AgentError("control_away", path=self._path)
        return decode_answer(line)


def _items(answer: Answer) -> dict[str, Item]:
    if not isinstance(answer, Snapshot):
        raise AgentError("control_malformed", reason="a snapshot was expected")
    return {item.key: item for item in answer.items}
