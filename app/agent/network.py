"""Everything that goes over the network, for the shell: instructions become calls, answers events.

Owns: the links by grant, the leases' tasks and tickets, the results that wait to be sent. Must not:
decide when; block the loop. An answer that makes no sense becomes an event or an error line, never
an exception in the loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.agent import coordinator, events
from app.agent.backoff import Backoff
from app.agent.cache import BlobCache
from app.agent.card_engine import Computed, Reader
from app.agent.grant_link import GrantLink
from app.agent.instructions import Contact, Exchange, Fetch, Upload
from app.agent.lane import Lane
from app.agent.link import Link, Peer, PeerRefusal
from app.agent.offers import HeldLease, read_reply
from app.agent.tickets import read_grant
from gpugoblin.clock import Clock
from gpugoblin.errors import AgentError, GoblinError
from gpugoblin.ids import GrantId, LeaseId
from gpugoblin.wire.messages.contact import CardClass, ContactReply, GrantOffer
from gpugoblin.wire.messages.contact import Contact as ContactMessage
from gpugoblin.wire.messages.lease import Abandon, ExchangeReply
from gpugoblin.wire.messages.lease import Exchange as ExchangeMessage
from gpugoblin.wire.messages.task import BlobRef, Capabilities, Counters, Result
from gpugoblin.wire.signing import public_key_bytes, sign_claim

__all__ = ["Cards", "Network", "Totals"]

T = TypeVar("T")

LEAST_CONTACT_S = 1.0
LAB_MOST_S = 60.0
BLOB_MOST_S = 4.0
LIES = frozenset({"blob_is_false", "message_malformed", "message_too_large"})
NO_USE_TO_RETRY = frozenset({"cache_full", "disk_floor", "grant_closed", *LIES})


@dataclass(frozen=True, slots=True)
class Cards:
    """What the network asks about cards.

    Args:
        classes: of all cards that were measured, for contacts.
        capabilities: of one card, for exchanges.
    """

    classes: Callable[[], tuple[CardClass, ...]]
    capabilities: Callable[[int], Capabilities]


@dataclass(slots=True)
class Totals:
    """Counters since the start. `lost_s`: computing that stops have thrown away."""

    results_sent: int = 0
    leases_given_back: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    computed_s: float = 0.0
    lost_s: float = 0.0


@dataclass(slots=True)
class _Grant:
    link: GrantLink
    exchanges: Backoff
    blobs: Backoff
    sending: Backoff
    card: int


@dataclass(slots=True)
class Network:
    """One agent's links. All methods belong to the loop's thread.

    Args:
        post: takes the events of one answer together.
        coordinator_peer: None as long as none is named; it may be set while the agent runs.
        explain: told the last error of each code, for people.
        refuse: told why an offered grant was not taken.
    """

    key: Ed25519PrivateKey
    coordinator_peer: Peer | None
    clock: Clock
    rng: random.Random
    cache: BlobCache
    cards: Cards
    post: Callable[..., None]
    explain: Callable[[GoblinError], None]
    refuse: Callable[[GoblinError], None]
    totals: Totals = field(default_factory=Totals)
    offers: dict[GrantId, GrantOffer] = field(default_factory=dict)
    held: dict[LeaseId, HeldLease] = field(default_factory=dict)
    results: dict[LeaseId, Computed] = field(default_factory=dict)
    _grants: dict[GrantId, _Grant] = field(default_factory=dict)
    _lane: Lane = field(default_factory=lambda: Lane("coordinator"))
    _contacts: Backoff | None = None
    _link: Link | None = None
    _calls: set[asyncio.Future[Any]] = field(default_factory=set)

    def coordinator_call(self, function: Callable[[Link], T]) -> Future[T]:
        """Runs a dialogue with the coordinator on its lane; see `linked`."""

        def work() -> T:
            self._link = self.linked(self._link)
            return function(self._link)

        return self._lane.call(work)

    def linked(self, link: Link | None) -> Link:
        """This link to the coordinator, or another one where that has moved. From any thread.

        Raises:
            AgentError: `coordinator_missing`.
        """
        peer = self.coordinator_peer
        if peer is None:
            raise AgentError("coordinator_missing")
        if link is not None and link.peer == peer:
            return link
        if link is not None:
            link.close()
        return Link(peer, self.key, self.clock)

    def close(self) -> None:
        """Ends all lanes; what hangs in the network is left to itself, and nobody hears of it."""
        for call in list(self._calls):
            call.cancel()
        for grant in list(self._grants):
            self.close_grant(grant)
        self._lane.end(self._disconnect)

    def _disconnect(self) -> None:
        if self._link is not None:
            self._link.close()

    # -- grants ----------------------------------------------------------------------------

    def recall(self, offer: GrantOffer) -> events.GrantNews | None:
        """A grant from the journal or a contact; None if it is of no use here."""
        try:
            news = read_grant(offer, public_key_bytes(self.key), self.clock.wall_s())
            Peer("lab node", offer.address, offer.certificate_sha256 or "")
        except AgentError as error:
            self.refuse(error)
            return None
        self.offers[news.grant] = offer
        return news

    def open_grant(self, grant: GrantId) -> None:
        """Makes the links of a grant that the machine took."""
        if grant not in self._grants:
            offer = self.offers[grant]
            self._grants[grant] = _Grant(
                GrantLink(grant, offer, self.key, self.clock, self.cache),
                Backoff(self.rng, most_s=LAB_MOST_S),
                Backoff(self.rng, most_s=BLOB_MOST_S),
                Backoff(self.rng, most_s=LAB_MOST_S),
                offer.card,
            )

    def close_grant(self, grant: GrantId) -> None:
        """Closes the links of a grant and wipes its part of the cache."""
        open_grant = self._grants.pop(grant, None)
        if open_grant is not None:
            open_grant.link.close()
        self.offers.pop(grant, None)
        self.held = {name: each for name, each in self.held.items() if each.grant != grant}

    def drop_lease(self, lease: LeaseId) -> None:
        """Frees what is kept for a lease."""
        self.held.pop(lease, None)
        self.results.pop(lease, None)
        self.cache.unpin(lease)

    # -- calls -----------------------------------------------------------------------------

    def contact(self, told: Contact) -> None:
        message = ContactMessage(self.cards.classes(), told.holding, told.wants)
        backoff = self._contacts = self._contacts or Backoff(self.rng)

        def done(reply: ContactReply) -> None:
            backoff.succeeded()
            self.offers = {name: each for name, each in self.offers.items() if name in self._grants}
            news = [found for offer in reply.grants if (found := self.recall(offer)) is not None]
            self.post(
                events.ContactReply(
                    grants=tuple(news),
                    revoked=reply.revoked,
                    next_contact_s=max(LEAST_CONTACT_S, reply.next_contact_s),
                )
            )

        def failed(error: GoblinError) -> None:
            retry_s = backoff.next_s(_asked_s(error))
            self.post(events.ContactFailed(code=error.code, retry_s=retry_s))

        call = self.coordinator_call(lambda link: coordinator.contact(link, message))
        self._when(call, done, failed)

    def exchange(self, told: Exchange) -> None:
        grant = self._grants[told.grant]
        message = ExchangeMessage(
            commits=tuple(self._result(lease, told.grant, grant.card) for lease in told.commits),
            abandons=tuple(Abandon(lease, reason) for lease, reason in told.abandons),
            holding=told.holding,
            want=told.want,
            capabilities=self.cards.capabilities(grant.card) if told.introduces else None,
        )

        def done(reply: ExchangeReply) -> None:
            grant.exchanges.succeeded()
            offer = grant.link.offer
            news, held = read_reply(
                reply, told.grant, offer.lab, public_key_bytes(self.key), self.clock.wall_s()
            )
            for lease, each in held.items():
                self.held.setdefault(lease, each)
            finished = events.ExchangeDone(
                grant=told.grant, exchange=told.exchange, wait_s=reply.wait_s
            )
            self.post(*news, finished)

        def failed(error: GoblinError) -> None:
            self.post(
                events.ExchangeFailed(
                    grant=told.grant,
                    exchange=told.exchange,
                    code=error.code,
                    retry_s=grant.exchanges.next_s(_asked_s(error)),
                    is_final=_ends_grant(error),
                )
            )

        self.totals.leases_given_back += len(told.abandons)
        self._when(grant.link.exchange(message), done, failed)

    def _result(self, lease: LeaseId, grant: GrantId, card: int) -> Result:
        computed = self.results[lease]
        facts = self.cards.capabilities(card)
        return Result(
            lease=lease,
            outputs=tuple(BlobRef(each.blob, len(each.data)) for each in computed.outputs),
            engine_build=facts.engine_build,
            driver=facts.driver,
            kernel_set=facts.kernel_set,
            sandbox_level=facts.sandbox_level,
            counters=Counters(computed.compute_s, computed.peak_memory_bytes),
            claim=sign_claim(self.key, lease, grant),
        )

    def fetch(self, told: Fetch) -> None:
        grant = self._grants[told.grant]
        held = self.held.get(told.lease)

        def done(_: None) -> None:
            try:
                self._pin(told)
            except AgentError as error:  # thrown out again before it could be pinned
                failed(error)
                return
            grant.blobs.succeeded()
            self.totals.bytes_received += told.nbytes
            self.post(events.BlobReady(grant=told.grant, blob=told.blob))

        def failed(error: GoblinError) -> None:
            self.post(
                events.BlobFailed(
                    grant=told.grant,
                    blob=told.blob,
                    code=error.code,
                    retry_s=grant.blobs.next_s(_asked_s(error)),
                    is_final=error.code in NO_USE_TO_RETRY or _is_refused(error),
                    is_lie=error.code in LIES,
                )
            )

        if held is None:  # given back meanwhile; another lease may want the blob
            failed(AgentError("blob_unknown", blob=told.blob))
            return
        call = grant.link.fetch(held.lease.blob_ticket, told.blob, told.nbytes)
        self._when(call, done, failed)

    def _pin(self, told: Fetch) -> None:
        for lease, held in self.held.items():
            if held.grant == told.grant and told.blob in held.blobs:
                self.cache.pin(told.grant, told.blob, lease)

    def upload(self, told: Upload) -> None:
        grant = self._grants[told.grant]
        outputs = self.results[told.lease].outputs

        def done(state: Any) -> None:
            grant.sending.succeeded()
            self.totals.results_sent += 1
            self.totals.bytes_sent += sum(len(each.data) for each in outputs)
            self.post(events.UploadDone(lease=told.lease, state=state))

        def failed(error: GoblinError) -> None:
            self.post(
                events.UploadFailed(
                    lease=told.lease,
                    code=error.code,
                    retry_s=grant.sending.next_s(_asked_s(error)),
                    is_final=error.code == "upload_unfinished" or _is_refused(error),
                )
            )

        self._when(grant.link.upload(told.lease, outputs), done, failed)

    def reader(self, lease: LeaseId) -> Reader:
        """What reads the cached blobs of a lease that is held."""
        return self._grants[self.held[lease].grant].link.read

    def _when(
        self,
        call: Future[T],
        done: Callable[[T], None],
        failed: Callable[[GoblinError], None],
    ) -> None:
        def settled(future: asyncio.Future[T]) -> None:
            if future.cancelled():
                failed(AgentError("grant_closed", grant="of this call"))
                return
            error = future.exception()
            if error is None:
                done(future.result())
            elif isinstance(error, GoblinError):
                self.explain(error)
                failed(error)
            else:
                raise error

        waiting = asyncio.wrap_future(call)
        self._calls.add(waiting)
        waiting.add_done_callback(self._calls.discard)
        waiting.add_done_callback(settled)


def _asked_s(error: GoblinError) -> float | None:
    return error.retry_after_s if isinstance(error, PeerRefusal) else None


def _ends_grant(error: GoblinError) -> bool:
    """True when nothing that comes under this grant will be taken any more."""
    # A wrong certificate or clock can pass; a ticket or a grant that is refused stays refused.
    if not isinstance(error, PeerRefusal):
        return False
    return error.status == 403 or error.refusal.startswith(("ticket_", "grant_"))


def _is_refused(error: GoblinError) -> bool:
    """True when the lab understood a request about one lease and will not have it."""
    return isinstance(error, PeerRefusal) and error.status in (400, 403, 404, 409, 410)
