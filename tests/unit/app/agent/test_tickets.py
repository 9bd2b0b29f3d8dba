"""Tickets that are not for this device are seen before anything is sent."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.tickets import check_blob_ticket, read_grant
from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId, LabId, LeaseId
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import Grant, GrantOffer
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.tickets import BlobTicket, sign_blob_ticket, sign_grant
from tests.helpers.messages import example

DEVICE = b"d" * 32
LAB, GRANT = LabId("lab_a"), GrantId("grant_a")


def grant(**fields: object) -> Grant:
    made = Grant(
        jti=GrantId("grant_a"),
        aud=LAB,
        exp=2000,
        iat=1000,
        device_key=DEVICE.hex(),
        card=0,
        owner_pseudonym="owner_a",  # type: ignore[arg-type]
        owner_age_days=1,
        network_bucket="00" * 8,
        card_class="cpu",
        engine_build="e",
        catalog_hash="ab" * 32,
        max_leases=4,
    )
    return msgspec.structs.replace(made, **fields)


def offer(**fields: object) -> GrantOffer:
    return GrantOffer(sign_grant(make_key(), grant(**fields)), LAB, 0, "https://127.0.0.1:1")


def test_a_good_grant() -> None:
    news = read_grant(offer(), DEVICE, 1500.0)
    assert (news.grant, news.lab, news.card, news.max_leases) == ("grant_a", LAB, 0, 4)
    assert news.remaining_s == 500.0


@pytest.mark.parametrize(
    ("made", "now_s", "words"),
    [
        (offer(device_key="ee" * 32), 1500.0, "another device"),
        (offer(aud=LabId("lab_b")), 1500.0, "another lab or card"),
        (offer(card=3), 1500.0, "another lab or card"),
        (offer(), 2000.0, "clock"),
        (GrantOffer("abc", LAB, 0, "https://127.0.0.1:1"), 0.0, "declared form"),
        (GrantOffer("a.b.c", LAB, 0, "https://127.0.0.1:1"), 0.0, "declared form"),
    ],
)
def test_a_grant_of_no_use(made: GrantOffer, now_s: float, words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        read_grant(made, DEVICE, now_s)
    assert caught.value.code == "grant_unusable"


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)))
def test_any_payload_is_an_error_and_nothing_else(payload: dict[str, object]) -> None:
    encoded = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    ticket = f"e30.{encoded}.AA"
    with pytest.raises(AgentError):
        read_grant(GrantOffer(ticket, LAB, 0, "https://127.0.0.1:1"), DEVICE, 0.0)


def leased(**fields: object) -> Lease:
    claims = BlobTicket("ticket_a", LAB, 2000, 1000, DEVICE.hex(), GRANT)
    ticket = sign_blob_ticket(make_key(), msgspec.structs.replace(claims, **fields))
    lease = example(Lease, bare=True)
    return msgspec.structs.replace(lease, lease=LeaseId("lease_a"), blob_ticket=ticket)


def test_a_blob_ticket_must_be_for_this_device_lab_and_grant() -> None:
    check_blob_ticket(leased(), GRANT, LAB, DEVICE)
    for wrong in ({"device_key": "ee" * 32}, {"grant": "grant_b"}, {"aud": "lab_b"}):
        with pytest.raises(AgentError, match="somebody else"):
            check_blob_ticket(leased(**wrong), GRANT, LAB, DEVICE)
    malformed = msgspec.structs.replace(leased(), blob_ticket="x")
    with pytest.raises(AgentError, match="declared form"):
        check_blob_ticket(malformed, GRANT, LAB, DEVICE)
