"""Bounds on what a stranger may send before anybody looks at it. For servers only.

Owns: the size of a request's head, how long a peer may be silent in the middle of a request, and
how many connections there may be: of all, and of one sender.
uvicorn with httptools has neither: heads of any size are kept in memory, one header of 60 MB stops
the event loop for seconds, and a body that never ends keeps its connection for ever. Must not: know
a route; look at a body (whoever reads it bounds it).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

__all__ = [
    "MAX_HEAD_BYTES",
    "SENDER_SHARE",
    "SILENCE_S",
    "SPARE",
    "GuardedProtocol",
    "beyond",
    "enter",
    "leave",
    "sender_of",
]

MAX_HEAD_BYTES: Final = 64 * 1024
"""Of request line and headers. What came in the same piece (256 KiB at most) is not counted."""

SILENCE_S: Final = 60.0

SENDER_SHARE: Final = 4
"""One sender may have this part of all connections, one in so many."""

SPARE: Final = 64
"""So many connections beyond a limit are told so (503) with their request; more are cut at once."""

_senders: Final[WeakKeyDictionary[ServerState, Counter[str]]] = WeakKeyDictionary()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with these bounds. A peer that exceeds one loses its connection.

    With uvicorn's `limit_concurrency`, newcomers beyond it are refused, and who is here already is
    served: uvicorn itself would refuse everybody.
    """

    proxies: frozenset[str] = frozenset()
    """Addresses that speak for many senders."""

    on_arrival: Callable[[], None] | None = None
    """Called when the handshake is over, before the connection counts itself."""

    _sender = ""
    _in_head = False
    _is_idle = False
    _fresh = False
    _head_bytes = 0
    _heard_s = 0.0
    _watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self.on_arrival is not None:
            self.on_arrival()
            self.on_arrival = None
        super().connection_made(transport)
        self._look_again()
        if self.limit_concurrency is not None:
            self._admit(self.limit_concurrency)

    def _admit(self, limit: int) -> None:
        self._sender = sender_of(self.client[0] if self.client else "", self.proxies)
        enter(self.server_state, self._sender)
        too_many = beyond(self.server_state, limit, self._sender)
        # With a limit of 0, uvicorn answers 503 to whatever this connection asks.
        self.limit_concurrency = 0 if too_many > 0 else None
        if too_many > SPARE:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        leave(self.server_state, self._sender)
        self._sender = ""
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


def enter(state: ServerState, sender: str) -> None:
    """One more connection of a sender; nothing for the empty one."""
    if sender:
        _senders.setdefault(state, Counter())[sender] += 1


def leave(state: ServerState, sender: str) -> None:
    """One less."""
    if sender:
        counts = _senders[state]
        counts[sender] -= 1
        if not counts[sender]:
            del counts[sender]


def beyond(state: ServerState, limit: int | None, sender: str, waiting: int = 0) -> int:
    """By how many a connection exceeds the limits, its own included; not positive: by none.

    Args:
        waiting: connections whose handshake is not over; they count too.
    """
    if limit is None:
        return 0
    excess = len(state.connections) + waiting - limit
    if sender:
        own = _senders.get(state, Counter())[sender]
        excess = max(excess, own - max(1, limit // SENDER_SHARE))
    return excess


def sender_of(host: str, proxies: frozenset[str] = frozenset()) -> str:
    """Whose connections count together: an IPv4 address, or a network of 64 bits of IPv6.

    Empty for this machine itself, where a proxy may speak for the world, and for `proxies`.
    """
    if host in proxies:
        return ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return "" if address.is_loopback else address.packed[:8].hex()
        address = address.ipv4_mapped
    return "" if address.is_loopback else str(address)
