"""Bounds on what a stranger may send before anybody looks at it. For servers only.

Owns: the size of a request's head, and how long a peer may be silent in the middle of a request.
uvicorn with httptools has neither: heads of any size are kept in memory, one header of 60 MB stops
the event loop for seconds, and a body that never ends keeps its connection for ever. Must not: know
a route; look at a body (whoever reads it bounds it).
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["MAX_HEAD_BYTES", "SILENCE_S", "GuardedProtocol"]

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of request line and headers. What came in the same piece (256 KiB at most) is not counted."""

SILENCE_S: Final = 60.0


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with these bounds. A peer that exceeds one loses its connection."""

    _in_head = False
    _is_idle = False
    _fresh = False
    _head_bytes = 0
    _heard_s = 0.0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._fresh = False
        self._heard_s = self.loop.time()
        super().data_received(data)
        if self._in_head and not self._fresh:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._in_head = False
                self.transport.abort()

    def on_message_begin(self) -> None:
        self._in_head, self._is_idle, self._fresh, self._head_bytes = True, False, True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_idle = True
        super().on_message_complete()

    def _look_again(self) -> None:
        self._heard_s = self.loop.time()
        self._watch = self.loop.call_later(SILENCE_S, self._check_silence)

    def _check_silence(self) -> None:
        """A request is under way, or none has come yet, and we are not the ones who do not read."""
        silent_s = self.loop.time() - self._heard_s
        if self._is_idle or self.flow.read_paused:
            self._look_again()
        elif silent_s >= SILENCE_S:
            self._watch = None
            self.transport.abort()
        else:
            self._watch = self.loop.call_later(SILENCE_S - silent_s, self._check_silence)
