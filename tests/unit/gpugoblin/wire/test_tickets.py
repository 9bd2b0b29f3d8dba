"""Tickets: each attack on a JWT has its own refusal."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.errors import WireError
from gpugoblin.wire import tickets
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.signing import public_key_bytes
from gpugoblin.wire.tickets import (
    BLOB,
    GRANT,
    REVOCATIONS,
    BlobTicket,
    RevocationList,
    TicketCache,
    key_id,
    sign_blob_ticket,
    sign_grant,
    sign_revocations,
    verify_blob_ticket,
    verify_grant,
    verify_revocations,
)

ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))  # fixed: test ids hold tickets
ISSUER_KEY = public_key_bytes(ISSUER)
DEVICE_KEY = public_key_bytes(make_key())
LAB: Any = "lab_a"
NOW_S = 1_790_000_000
PAYLOAD: dict[str, Any] = {
    "jti": "grant_a",
    "aud": LAB,
    "exp": NOW_S + 3600,
    "iat": NOW_S,
    "device_key": DEVICE_KEY.hex(),
    "card": 0,
    "owner_pseudonym": "owner_a",
    "owner_age_days": 12,
    "network_bucket": "0123456789abcdef",
    "card_class": "cpu",
    "engine_build": "engine-1",
    "catalog_hash": "ab" * 32,
    "max_leases": 4,
}
GRANT_A = msgspec.convert(PAYLOAD, Grant)
BLOB_A = BlobTicket(
    jti="blob_a",
    aud=LAB,
    exp=NOW_S + 60,
    iat=NOW_S,
    device_key=DEVICE_KEY.hex(),
    grant="grant_a",  # type: ignore[arg-type]
)
HEADER = {"alg": "EdDSA", "typ": "goblin-grant+jwt", "kid": key_id(ISSUER_KEY)}


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def made(header: object, payload: object, sign: Callable[[bytes], bytes] = ISSUER.sign) -> str:
    """A ticket as an attacker (or a defective issuer) may make it."""
    text = f"{encoded(header)}.{encoded(payload)}"
    return text + "." + base64.urlsafe_b64encode(sign(text.encode())).rstrip(b"=").decode()


def refusal(ticket: str, **changed: Any) -> str:
    given_ = {"keys": [ISSUER_KEY], "audience": LAB, "now_s": NOW_S + 1, **changed}
    given_.setdefault("device_key", DEVICE_KEY)
    with pytest.raises(WireError) as caught:
        verify_grant(ticket, **given_)
    return caught.value.code


def test_a_genuine_grant_gives_its_claims() -> None:
    ticket = sign_grant(ISSUER, GRANT_A)
    found = verify_grant(
        ticket, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S + 1, device_key=DEVICE_KEY
    )
    assert found == GRANT_A
    assert ticket == sign_grant(ISSUER, GRANT_A)


def test_the_handmade_ticket_is_accepted_so_the_attacks_below_differ_by_their_attack_alone() -> (
    None
):
    verify_grant(made(HEADER, PAYLOAD), keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S)


def mac_by_public_key(text: bytes) -> bytes:
    return hmac.digest(ISSUER_KEY, text, "sha256")


@pytest.mark.parametrize(
    ("ticket", "code"),
    [
        (made({**HEADER, "alg": "none"}, PAYLOAD, lambda _: b""), "ticket_algorithm_refused"),
        (made({**HEADER, "alg": "None"}, PAYLOAD, lambda _: b""), "ticket_algorithm_refused"),
        (made({**HEADER, "alg": "HS256"}, PAYLOAD, mac_by_public_key), "ticket_algorithm_refused"),
        (made({**HEADER, "alg": "ES256"}, PAYLOAD), "ticket_algorithm_refused"),
        (made({**HEADER, "alg": "eddsa"}, PAYLOAD), "ticket_algorithm_refused"),
        (made({"typ": HEADER["typ"], "kid": HEADER["kid"]}, PAYLOAD), "ticket_algorithm_refused"),
        (made(HEADER, PAYLOAD, mac_by_public_key), "ticket_signature_wrong"),
        (made(HEADER, PAYLOAD, lambda _: bytes(64)), "ticket_signature_wrong"),
        (made(HEADER, PAYLOAD, make_key().sign), "ticket_signature_wrong"),
        (made({**HEADER, "typ": "JWT"}, PAYLOAD), "ticket_wrong_kind"),
        (made({**HEADER, "typ": BLOB.typ}, PAYLOAD), "ticket_wrong_kind"),
        (made({"alg": "EdDSA", "kid": HEADER["kid"]}, PAYLOAD), "ticket_wrong_kind"),
        (made({**HEADER, "kid": "0" * 16}, PAYLOAD), "ticket_unknown_key"),
        (made({**HEADER, "jku": "https://evil"}, PAYLOAD), "ticket_malformed"),
        (made({**HEADER, "crit": ["b64"], "b64": False}, PAYLOAD), "ticket_malformed"),
        (made({**HEADER, "kid": 5}, PAYLOAD), "ticket_malformed"),
        (made([HEADER], PAYLOAD), "ticket_malformed"),
        (made(HEADER, [PAYLOAD]), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "admin": True}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "max_leases": 1000}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "owner_pseudonym": "Ann Example"}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "exp": "soon"}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "exp": NOW_S + 3600.5}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "aud": [LAB]}), "ticket_malformed"),
        (made(HEADER, {**PAYLOAD, "exp": NOW_S + 3601}), "ticket_too_long"),
        ("", "ticket_malformed"),
        ("a.b", "ticket_malformed"),
        ("..", "ticket_malformed"),
        (encoded(HEADER) + ".x", "ticket_malformed"),
        ("é." * 3, "ticket_malformed"),
        ("e30" * 100 + ".e30.e30", "ticket_malformed"),
        ("x" * 4097, "ticket_too_large"),
    ],
)  # fmt: skip
def test_attacks(ticket: str, code: str) -> None:
    assert refusal(ticket) == code


@pytest.mark.parametrize("claim", ["exp", "iat", "jti", "aud"])
def test_required_claims(claim: str) -> None:
    payload = {name: value for name, value in PAYLOAD.items() if name != claim}
    assert refusal(made(HEADER, payload)) == "ticket_claim_missing"


def test_for_someone_else() -> None:
    ticket = sign_grant(ISSUER, GRANT_A)
    assert refusal(ticket, audience="lab_b") == "ticket_wrong_audience"
    assert refusal(ticket, device_key=bytes(32)) == "ticket_wrong_device"
    assert refusal(ticket, keys=[]) == "ticket_unknown_key"
    assert refusal(ticket, keys=[public_key_bytes(make_key())]) == "ticket_unknown_key"


def test_in_another_time() -> None:
    ticket = sign_grant(ISSUER, GRANT_A)
    assert refusal(ticket, now_s=NOW_S + 3600) == "ticket_expired"
    assert refusal(ticket, now_s=NOW_S - 301) == "ticket_from_future"
    verify_grant(ticket, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S + 3599.9)
    verify_grant(ticket, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S - 299)


def test_an_old_and_a_new_key_of_the_issuer() -> None:
    newer = make_key()
    keys = [public_key_bytes(newer), ISSUER_KEY]
    for key in (ISSUER, newer):
        verify_grant(sign_grant(key, GRANT_A), keys=keys, audience=LAB, now_s=NOW_S)


def test_claims_that_would_be_refused_are_not_signed() -> None:
    with pytest.raises(WireError) as caught:
        sign_grant(ISSUER, msgspec.structs.replace(GRANT_A, exp=NOW_S + 4000))
    assert caught.value.code == "ticket_too_long"
    with pytest.raises(WireError) as caught:
        sign_grant(ISSUER, msgspec.structs.replace(GRANT_A, card=64))
    assert caught.value.code == "ticket_malformed"
    lists = RevocationList(
        jti="revs_a", aud=LAB, iat=NOW_S, exp=NOW_S + 60, number=1,
        revoked=tuple("grant_" + "a" * 26 for _ in range(60_000)),  # type: ignore[arg-type]
    )  # fmt: skip
    assert len(sign_revocations(ISSUER, lists)) < REVOCATIONS.max_characters


def test_blob_tickets() -> None:
    ticket = sign_blob_ticket(ISSUER, BLOB_A)
    found = verify_blob_ticket(
        ticket, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S, device_key=DEVICE_KEY
    )
    assert found == BLOB_A
    assert found.peers == ()
    assert set(jwt.decode(ticket, options={"verify_signature": False})) == {
        "device_key", "grant", "aud", "exp", "iat", "jti", "peers",
    }  # fmt: skip
    assert refusal(ticket) == "ticket_wrong_kind"
    with pytest.raises(WireError) as caught:
        verify_blob_ticket(
            ticket, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S, device_key=bytes(32)
        )
    assert caught.value.code == "ticket_wrong_device"


def test_revocation_lists_do_not_go_back() -> None:
    revoked = RevocationList(
        jti="revs_a",
        aud=LAB,
        iat=NOW_S,
        exp=NOW_S + 600,
        number=7,
        revoked=("grant_a",),  # type: ignore[arg-type]
    )
    ticket = sign_revocations(ISSUER, revoked)
    at = {"keys": [ISSUER_KEY], "audience": LAB, "now_s": NOW_S}
    assert verify_revocations(ticket, known_number=7, **at) == revoked  # type: ignore[arg-type]
    with pytest.raises(WireError) as caught:
        verify_revocations(ticket, known_number=8, **at)  # type: ignore[arg-type]
    assert caught.value.code == "revocations_stale"


class TestCache:
    def cache(self, **changed: Any) -> TicketCache[Grant]:
        return TicketCache(GRANT, keys=[ISSUER_KEY], audience=LAB, **changed)

    def test_verifies_a_signature_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        checked: list[str] = []
        original = tickets._signed_claims

        def counting(kind: Any, ticket: str, key: bytes) -> Any:
            checked.append(ticket)
            return original(kind, ticket, key)

        monkeypatch.setattr(tickets, "_signed_claims", counting)
        cache, ticket = self.cache(), sign_grant(ISSUER, GRANT_A)
        for _ in range(5):
            assert cache.verify(ticket, now_s=NOW_S, device_key=DEVICE_KEY) == GRANT_A
        assert len(checked) == 1

    def test_still_checks_time_and_device_each_time(self) -> None:
        cache, ticket = self.cache(), sign_grant(ISSUER, GRANT_A)
        cache.verify(ticket, now_s=NOW_S, device_key=DEVICE_KEY)
        with pytest.raises(WireError) as caught:
            cache.verify(ticket, now_s=NOW_S, device_key=bytes(32))
        assert caught.value.code == "ticket_wrong_device"
        with pytest.raises(WireError) as caught:
            cache.verify(ticket, now_s=NOW_S + 3600, device_key=DEVICE_KEY)
        assert caught.value.code == "ticket_expired"
        assert len(cache) == 0

    def test_never_keeps_a_refused_ticket(self) -> None:
        cache = self.cache()
        with pytest.raises(WireError):
            cache.verify(made(HEADER, PAYLOAD, lambda _: bytes(64)), now_s=NOW_S)
        assert len(cache) == 0

    def test_is_bounded(self) -> None:
        cache = self.cache(max_entries=3)
        for number in range(10):
            grant = msgspec.structs.replace(GRANT_A, card=number)
            cache.verify(sign_grant(ISSUER, grant), now_s=NOW_S)
        assert len(cache) == 3

    def test_forgets_what_a_replaced_key_vouched_for(self) -> None:
        cache, ticket = self.cache(), sign_grant(ISSUER, GRANT_A)
        cache.verify(ticket, now_s=NOW_S)
        cache.replace_keys([ISSUER_KEY])
        assert len(cache) == 1
        cache.replace_keys([public_key_bytes(make_key())])
        with pytest.raises(WireError) as caught:
            cache.verify(ticket, now_s=NOW_S)
        assert caught.value.code == "ticket_unknown_key"


@settings(max_examples=200, deadline=None, database=None)
@given(data=st.data())
def test_a_changed_character_is_never_accepted_as_something_else(data: st.DataObject) -> None:
    ticket = sign_grant(ISSUER, GRANT_A)
    place = data.draw(st.integers(0, len(ticket) - 1))
    character = data.draw(st.characters(codec="utf-8"))
    changed = ticket[:place] + character + ticket[place + 1 :]
    try:
        found = verify_grant(changed, keys=[ISSUER_KEY], audience=LAB, now_s=NOW_S)
    except WireError as error:
        assert error.code.startswith("ticket_")  # noqa: PT017 - either outcome is right
    else:
        assert found == GRANT_A
