"""Tickets at the lab node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import GoblinError
from gpugoblin.wire.signing import public_key_bytes
from server_stub.node.tickets import Tickets
from tests.helpers.device import grant_for

__all__: list[str] = []

NOW_S = 1_790_000_000.0
COORDINATOR, NODE, DEVICE = (Ed25519PrivateKey.generate() for _ in range(3))


def test_a_grant_becomes_a_party_of_one_card() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    ticket, grant = grant_for(COORDINATOR, DEVICE, "lab_abc", NOW_S, card=2)
    party = tickets.party(ticket, NOW_S, public_key_bytes(DEVICE))
    assert party.device == f"{public_key_bytes(DEVICE).hex()}.2"
    assert (party.owner, party.bucket) == (grant.owner_pseudonym, grant.network_bucket)
    assert party.grant == grant.jti
    assert tickets.party(ticket, NOW_S + 1, public_key_bytes(DEVICE)) == party


def test_without_a_coordinator_nobody_is_taken() -> None:
    tickets = Tickets(NODE, "lab_abc")
    ticket, _ = grant_for(COORDINATOR, DEVICE, "lab_abc", NOW_S)
    with pytest.raises(GoblinError) as caught:
        tickets.party(ticket, NOW_S, public_key_bytes(DEVICE))
    assert caught.value.code == "no_volunteers"
    tickets.learn(public_key_bytes(COORDINATOR))
    assert tickets.party(ticket, NOW_S, public_key_bytes(DEVICE)).card == 0


def test_another_coordinators_key_ends_what_the_old_one_vouched_for() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    ticket, _ = grant_for(COORDINATOR, DEVICE, "lab_abc", NOW_S)
    tickets.party(ticket, NOW_S, public_key_bytes(DEVICE))
    tickets.learn(public_key_bytes(Ed25519PrivateKey.generate()))
    with pytest.raises(GoblinError):
        tickets.party(ticket, NOW_S, public_key_bytes(DEVICE))


def test_a_blob_ticket_is_for_one_lease_one_device_and_its_time() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    lease = SimpleNamespace(lease="lease_aaaa", until_s=NOW_S + 60.0)
    own = public_key_bytes(DEVICE)
    ticket = tickets.for_lease(lease, None, NOW_S, own)  # type: ignore[arg-type]
    claims = tickets.blob_ticket(ticket, NOW_S, own)
    assert claims.lease == "lease_aaaa"
    assert claims.peers == ()
    with pytest.raises(GoblinError):
        tickets.blob_ticket(ticket, NOW_S, public_key_bytes(NODE))
    with pytest.raises(GoblinError):
        tickets.blob_ticket(ticket, NOW_S + 500.0, own)
