"""Accepting connections that begin with a TLS handshake. For servers only.

Owns: a connection's time from its acceptance to the end of its handshake: how long that may take,
and that it counts toward the limits of `guard` from the first moment. uvicorn learns of a
connection when its handshake is over; peers that never finish one would each hold a descriptor for
a minute, uncounted. Must not: know a route, or choose a certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

import uvicorn
from uvicorn.server import ServerState

from gpugoblin.wire import guard

__all__ = ["HANDSHAKE_S", "Entrance", "GuardedServer"]

HANDSHAKE_S: Final = 10.0
LEAVE_S: Final = 2.0
"""How long requests and connections that were cut may take to be gone."""
REST_S: Final = 1.0
"""How long nobody is accepted when the process has no descriptor left."""

AT_ONCE: Final = 64
_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

log = logging.getLogger("gpugoblin.wire")


class Entrance:
    """Stands where uvicorn keeps an `asyncio.Server`: it takes connections until it is closed.

    Args:
        listener: bound and listening.
        make: one protocol a connection.
        state: of the server that the protocols belong to.
        limit: connections at once, handshakes included, before newcomers are cut; None: no limit.
        proxies: addresses that speak for many senders.
    """

    def __init__(
        self, listener: socket.socket, context: ssl.SSLContext,
        make: Callable[[], guard.GuardedProtocol], state: ServerState, limit: int | None,
        proxies: frozenset[str],
    ) -> None:  # fmt: skip
        self._listener = listener
        self._context = context
        self._make = make
        self._state = state
        self._limit = limit
        self._proxies = proxies
        self._loop = asyncio.get_running_loop()
        self._shaking: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    @property
    def in_handshake(self) -> int:
        """Connections whose handshake is not over."""
        return len(self._shaking)

    def close(self) -> None:
        """Takes no more connections, and ends those in their handshake."""
        if self._rest is not None:
            self._rest.cancel()
        else:
            self._loop.remove_reader(self._listener)
        for task in tuple(self._shaking):
            task.cancel()

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way any more."""
        await asyncio.gather(*self._shaking, return_exceptions=True)

    def _listen(self) -> None:
        self._rest = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as cause:
                if cause.errno not in _NONE_LEFT:
                    raise
                log.error("no connection is taken for %g s: %s", REST_S, cause.strerror)
                self._loop.remove_reader(self._listener)
                self._rest = self._loop.call_later(REST_S, self._listen)
                return
            self._take(connection, str(address[0]) if isinstance(address, tuple) else "")

    def _take(self, connection: socket.socket, host: str) -> None:
        sender = guard.sender_of(host, self._proxies)
        guard.enter(self._state, sender)
        waiting = len(self._shaking) + 1
        if guard.beyond(self._state, self._limit, sender, waiting) > guard.SPARE:
            guard.leave(self._state, sender)
            connection.close()
            return
        task = self._loop.create_task(self._shake(connection, lambda: self._over(task, sender)))
        self._shaking.add(task)
        task.add_done_callback(lambda task: self._over(task, sender))

    def _over(self, task: asyncio.Task[None], sender: str) -> None:
        """The protocol counts itself from here on, or nobody is there any more."""
        if task in self._shaking:
            self._shaking.discard(task)
            guard.leave(self._state, sender)

    async def _shake(self, connection: socket.socket, over: Callable[[], None]) -> None:
        def make() -> guard.GuardedProtocol:
            protocol = self._make()
            protocol.on_arrival = over
            return protocol

        with contextlib.suppress(OSError):  # TLS errors and time-outs are OSErrors
            await self._loop.connect_accepted_socket(
                make, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )


class GuardedServer(uvicorn.Server):
    """uvicorn's server; with TLS its connections are counted from their acceptance on.

    Its configuration names a `GuardedProtocol`, and it is given its sockets.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; then nobody is connected any more.

        A peer that keeps an idle connection over TLS need not answer that it ends; one that does
        not read keeps an answer under way. uvicorn leaves those open when its time is over: whoever
        ends the event loop next would find their transports, and a request would go on.
        """
        await super().shutdown(sockets)
        state = self.server_state
        if state.tasks:  # cancelled by uvicorn
            await asyncio.wait(tuple(state.tasks), timeout=LEAVE_S)
        for connection in tuple(state.connections):
            connection.transport.abort()
        ends_s = asyncio.get_running_loop().time() + LEAVE_S
        while state.connections and asyncio.get_running_loop().time() < ends_s:
            await asyncio.sleep(0.005)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        if config.ssl is None or sockets is None:
            await super().startup(sockets)
            return
        await super().startup([])
        kind = cast(type[guard.GuardedProtocol], config.http_protocol_class)
        for listener in sockets:
            entrance = Entrance(
                listener, config.ssl, lambda: self._made(kind), self.server_state,
                config.limit_concurrency, kind.proxies,
            )  # fmt: skip
            self.servers.append(cast(Any, entrance))  # closed like a server

    def _made(self, kind: type[guard.GuardedProtocol]) -> guard.GuardedProtocol:
        state = self.lifespan.state
        return kind(config=self.config, server_state=self.server_state, app_state=state)
