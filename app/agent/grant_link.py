"""Everything that is open for one grant: lanes to its lab node, and its part of the cache.

Owns: four lanes (asking, telling, fetching, sending), each with a connection of its own, so that
neither a held question nor a long download keeps a result from being told. Must not: decide when,
or know a lease beyond the tickets that it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent import lab
from app.agent.cache import BlobCache
from app.agent.lane import Lane
from app.agent.link import Link, Peer
from gpugoblin.clock import Clock
from gpugoblin.ids import BlobHash, GrantId, LeaseId
from gpugoblin.wire.messages.contact import GrantOffer
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply

__all__ = ["GrantLink"]

T = TypeVar("T")


class _Line:
    """A lane with the connection that only it uses."""

    def __init__(self, name: str, connect: Callable[[], Link]) -> None:
        self.lane = Lane(name)
        self._connect = connect
        self._link: Link | None = None

    def call(self, function: Callable[[Link], T]) -> Future[T]:
        def work() -> T:
            if self._link is None:
                self._link = self._connect()
            return function(self._link)

        return self.lane.call(work)

    def close(self) -> None:
        self.lane.end(self._disconnect)

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close()


class GrantLink:
    """The links of one grant; methods return futures and never block.

    Raises:
        AgentError: `address_refused`.
    """

    def __init__(
        self,
        grant: GrantId,
        offer: GrantOffer,
        key: Ed25519PrivateKey,
        clock: Clock,
        cache: BlobCache,
    ) -> None:
        self.grant = grant
        self.offer = offer
        self._cache = cache
        self._ended = threading.Event()
        peer = Peer("lab node", offer.address, offer.certificate_sha256 or "")

        def connect() -> Link:
            return Link(peer, key, clock)

        self._asking = _Line(f"lab-ask-{grant}", connect)
        self._telling = _Line(f"lab-tell-{grant}", connect)
        self._data = _Line(f"lab-data-{grant}", connect)
        self._uploads = _Line(f"lab-send-{grant}", connect)
        cache.open_grant(grant)

    def exchange(self, message: Exchange) -> Future[ExchangeReply]:
        """One exchange; one that tells something never waits behind one that only asks."""
        line = self._telling if message.commits or message.abandons else self._asking
        return line.call(lambda link: lab.exchange(link, self.offer.ticket, message))

    def fetch(self, ticket: str, blob: BlobHash, nbytes: int) -> Future[None]:
        """Brings a blob into the cache with the blob ticket of a lease."""
        tickets = (self.offer.ticket, ticket)
        return self._data.call(
            lambda link: lab.fetch(
                link, self._cache, self.grant, tickets, blob, nbytes, self._goes_on
            )
        )

    def upload(self, lease: LeaseId, outputs: tuple[lab.Output, ...]) -> Future[str]:
        """Sends the outputs of a lease; what became of it."""
        return self._uploads.call(
            lambda link: lab.upload(link, self.offer.ticket, lease, outputs, self._goes_on)
        )

    def read(self, blob: BlobHash, target: memoryview) -> None:
        """Decrypts a cached blob into `target`; blocks. Raises AgentError."""
        self._cache.read_into(self.grant, blob, target)

    def close(self) -> None:
        """Ends what is on the way as soon as it can be, and forgets the cached blobs."""
        self._ended.set()
        for line in (self._asking, self._telling, self._data, self._uploads):
            line.close()
        self._cache.close_grant(self.grant)

    def _goes_on(self) -> bool:
        return not self._ended.is_set()
