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


def test_a_party_is_that_of_the_grant_that_was_verified_last() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    own = public_key_bytes(DEVICE)
    ticket, _ = grant_for(COORDINATOR, DEVICE, "lab_abc", NOW_S, card=1)
    other, _ = grant_for(COORDINATOR, DEVICE, "lab_abc", NOW_S, card=2)
    first = tickets.party(ticket, NOW_S, own)
    assert tickets.party(other, NOW_S, own).card == 2
    assert tickets.party(ticket, NOW_S, own) is first
    with pytest.raises(GoblinError):
        tickets.party(ticket, NOW_S, public_key_bytes(NODE))
    with pytest.raises(GoblinError):
        tickets.party(ticket, first.grant_exp_s, own)


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


def asked(tickets: Tickets, now_s: float = NOW_S, *until_s: float, grant: str = "grant_a") -> str:
    leases = [SimpleNamespace(until_s=until_s) for until_s in until_s or (NOW_S + 60.0,)]
    party = SimpleNamespace(grant=grant, device="device.0")
    return tickets.for_leases(leases, party, now_s, public_key_bytes(DEVICE))  # type: ignore[arg-type]


def test_a_blob_ticket_is_for_one_grant_one_device_and_its_time() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    own = public_key_bytes(DEVICE)
    ticket = asked(tickets)
    claims = tickets.blob_ticket(ticket, NOW_S, own)
    assert claims.grant == "grant_a"
    assert claims.peers == ()
    with pytest.raises(GoblinError):
        tickets.blob_ticket(ticket, NOW_S, public_key_bytes(NODE))
    with pytest.raises(GoblinError):
        tickets.blob_ticket(ticket, float(claims.exp), own)


def test_one_blob_ticket_serves_the_leases_of_a_grant_until_one_outlasts_it() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    first = asked(tickets)
    assert asked(tickets, NOW_S + 5.0) == first
    assert asked(tickets, NOW_S, grant="grant_b") != first
    long = asked(tickets, NOW_S, NOW_S + 60.0, NOW_S + 7200.0)
    assert long != first
    claims = tickets.blob_ticket(long, NOW_S, public_key_bytes(DEVICE))
    assert claims.exp >= NOW_S + 7200.0 + 60.0
    assert asked(tickets) == long


def test_a_lease_of_a_day_has_a_ticket_that_its_bound_allows() -> None:
    tickets = Tickets(NODE, "lab_abc", public_key_bytes(COORDINATOR))
    ticket = asked(tickets, NOW_S, NOW_S + 24 * 3600.0)
    assert tickets.blob_ticket(ticket, NOW_S + 22 * 3600.0, public_key_bytes(DEVICE)).peers == ()
