"""Tickets at the lab node: grants that devices bring, blob tickets that they get.

Owns: the coordinator's key as it is known now, and the cache of verified tickets. Must not: decide
what a device may do beyond what its ticket says.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import NodeError
from gpugoblin.ids import GrantId, LabId, fresh_id
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.tickets import (
    BLOB,
    GRANT,
    BlobTicket,
    TicketCache,
    sign_blob_ticket,
)
from server_stub.node.state.words import Party

__all__ = ["Tickets", "party_of"]

MAX_TICKET_S: Final = 23 * 3600
SPARE_S: Final = 60.0
"""A ticket lasts so much longer than the lease: clocks differ, transfers take their time."""
RENEWED_S: Final = 1800
"""So much later a lease of the usual length needs a new ticket."""
MAX_MADE: Final = 4096


def party_of(grant: Grant) -> Party:
    """A grant's device as the state machine knows it: each card is a party of its own."""
    return Party(
        device=f"{grant.device_key}.{grant.card}",
        owner=grant.owner_pseudonym,
        bucket=grant.network_bucket,
        owner_age_days=grant.owner_age_days,
        grant=grant.jti,
        card=grant.card,
        grant_exp_s=float(grant.exp),
        max_leases=grant.max_leases,
    )


class Tickets:
    """Verifies and makes tickets of one lab node. Not for several threads at once."""

    def __init__(
        self, key: Ed25519PrivateKey, lab: str, coordinator_key: bytes | None = None
    ) -> None:
        self._key = key
        self._lab = LabId(lab)
        keys = () if coordinator_key is None else (coordinator_key,)
        self._grants = TicketCache(GRANT, keys=keys, audience=self._lab)
        self._blobs = TicketCache(BLOB, keys=(public_key_bytes(key),), audience=self._lab)
        self._known = bool(keys)
        self._parties: OrderedDict[str, tuple[Grant, Party]] = OrderedDict()
        self._made: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()

    def learn(self, coordinator_key: bytes) -> None:
        """Takes the coordinator's key, which vouches for grants."""
        self._known = True
        self._grants.replace_keys((coordinator_key,))

    def party(self, ticket: str, now_s: float, device_key: bytes) -> Party:
        """The party of a grant that this device holds.

        Raises:
            NodeError: `no_volunteers`.
            WireError: `ticket_*`.
        """
        if not self._known:
            raise NodeError("no_volunteers")
        grant = self._grants.verify(ticket, now_s=now_s, device_key=device_key)
        known = self._parties.get(ticket)
        # The very claims that were verified: another grant is another object.
        if known is None or known[0] is not grant:
            known = self._parties[ticket] = (grant, party_of(grant))
            if len(self._parties) > MAX_MADE:
                self._parties.popitem(last=False)
        self._parties.move_to_end(ticket)
        return known[1]

    def for_leases(self, leases: Sequence[Lease], party: Party, now_s: float, key: bytes) -> str:
        """A ticket for the inputs of a device's leases, for as long as the last of them.

        One ticket serves all leases of a grant: it is made again only when a lease outlasts it.
        """
        needed_s = min(now_s + MAX_TICKET_S, max(lease.until_s for lease in leases) + SPARE_S)
        name = (party.grant, party.device)
        made = self._made.get(name)
        if made is None or made[0] < needed_s:
            issued_s = int(now_s)
            until_s = min(issued_s + MAX_TICKET_S, math.ceil(needed_s) + RENEWED_S)
            ticket = BlobTicket(
                jti=fresh_id("ticket"), aud=self._lab, exp=until_s, iat=issued_s,
                device_key=key.hex(), grant=GrantId(party.grant),
            )  # fmt: skip
            made = (float(until_s), sign_blob_ticket(self._key, ticket))
            self._made[name] = made
            if len(self._made) > MAX_MADE:
                self._made.popitem(last=False)
        self._made.move_to_end(name)
        return made[1]

    def blob_ticket(self, ticket: str, now_s: float, device_key: bytes) -> BlobTicket:
        """The claims of a blob ticket of this node. Raises WireError `ticket_*`."""
        return self._blobs.verify(ticket, now_s=now_s, device_key=device_key)
