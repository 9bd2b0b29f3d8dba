"""Signatures of requests, claims and documents: what they cover, and what they refuse."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from gpugoblin.errors import WireError
from gpugoblin.wire import signing
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.signing import (
    HEADERS,
    WINDOW_S,
    canonical_json,
    check_request,
    claim_bytes,
    fingerprint,
    public_key_bytes,
    sign_claim,
    sign_json,
    sign_request,
    verify_claim,
    verify_json,
    verify_request,
)

NOW_S = 1_790_000_000.25
KEY = make_key()
PATH = "/v1/contact?a=1"
BODY = b'{"cards":[]}'


def signed() -> dict[str, str]:
    return sign_request(KEY, "POST", PATH, BODY, NOW_S)


def never_seen(public_key: bytes, nonce: bytes, until_s: float) -> bool:
    return False


def refusal(headers: dict[str, str], now_s: float = NOW_S, **changed: object) -> str:
    request = {"method": "POST", "path": PATH, "body": BODY, **changed}
    with pytest.raises(WireError) as caught:
        verify_request(headers, now_s=now_s, nonce_seen=never_seen, **request)  # type: ignore[arg-type]
    return caught.value.code


def test_a_signed_request_names_its_key() -> None:
    found = verify_request(signed(), "POST", PATH, BODY, NOW_S, never_seen)
    assert found == public_key_bytes(KEY)


def test_header_names_may_be_lower_case() -> None:
    headers = {name.lower(): value for name, value in signed().items()}
    assert check_request(headers, "POST", PATH, BODY, NOW_S).public_key == public_key_bytes(KEY)


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "PUT"},
        {"path": "/v1/contact?a=2"},
        {"path": "/v1/contact"},
        {"body": BODY + b" "},
        {"body": b""},
    ],
)
def test_every_part_of_the_request_is_covered(changed: dict[str, object]) -> None:
    assert refusal(signed(), **changed) == "signature_wrong"


def test_parts_cannot_flow_into_each_other() -> None:
    headers = sign_request(KEY, "POST", "/a", b"", NOW_S)
    with pytest.raises(WireError):
        check_request(headers, "POS", "T/a", b"", NOW_S)


@pytest.mark.parametrize("name", HEADERS)
def test_missing_header(name: str) -> None:
    headers = signed()
    del headers[name]
    assert refusal(headers) == "signature_missing"


@pytest.mark.parametrize("name", HEADERS)
def test_changed_header(name: str) -> None:
    headers = signed()
    digits = headers[name]
    headers[name] = digits[:-1] + ("1" if digits[-1] != "1" else "2")
    assert refusal(headers) == "signature_wrong"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Goblin-Key", "AB" * 32),
        ("Goblin-Key", "ab" * 31),
        ("Goblin-Key", "ab" * 32 + "\n"),
        ("Goblin-Time", "0123"),
        ("Goblin-Time", "-5"),
        ("Goblin-Time", "9" * 12),
        ("Goblin-Time", "1790000000.0"),
        ("Goblin-Time", "١٧٩٠٠٠٠٠٠٠"),
        ("Goblin-Nonce", ""),
        ("Goblin-Nonce", "g" * 32),
        ("Goblin-Signature", "0" * 127),
        ("Goblin-Signature", "x" * 100_000),
    ],
)
def test_malformed_header(name: str, value: str) -> None:
    assert refusal({**signed(), name: value}) == "signature_malformed"


@pytest.mark.parametrize("offset_s", [-WINDOW_S - 2, WINDOW_S + 2, 10 * 365 * 86_400])
def test_a_wrong_clock_is_named_with_both_times(offset_s: float) -> None:
    with pytest.raises(WireError) as caught:
        check_request(signed(), "POST", PATH, BODY, NOW_S + offset_s)
    assert caught.value.code == "signature_clock_wrong"
    assert "2026-09-21T14:13:20Z" in str(caught.value)
    assert signing.utc(NOW_S + offset_s) in str(caught.value)
    assert "timedatectl" in caught.value.next_step


@pytest.mark.parametrize("offset_s", [-WINDOW_S + 2, 0, WINDOW_S - 2])
def test_a_clock_within_the_window_is_accepted(offset_s: float) -> None:
    check_request(signed(), "POST", PATH, BODY, NOW_S + offset_s)


def test_a_nonce_is_used_once_and_remembered_for_the_whole_window() -> None:
    seen: dict[tuple[bytes, bytes], float] = {}

    def nonce_seen(public_key: bytes, nonce: bytes, until_s: float) -> bool:
        was_there = (public_key, nonce) in seen
        seen[public_key, nonce] = until_s
        return was_there

    headers = signed()
    verify_request(headers, "POST", PATH, BODY, NOW_S, nonce_seen)
    with pytest.raises(WireError) as caught:
        verify_request(headers, "POST", PATH, BODY, NOW_S, nonce_seen)
    assert caught.value.code == "signature_replayed"
    (until_s,) = seen.values()
    # Any later moment is outside of the window by itself.
    assert refusal(headers, until_s + 1) == "signature_clock_wrong"


def test_a_forged_request_uses_up_no_nonce() -> None:
    asked: list[bytes] = []

    def nonce_seen(public_key: bytes, nonce: bytes, until_s: float) -> bool:
        asked.append(nonce)
        return False

    with pytest.raises(WireError):
        verify_request(signed(), "POST", PATH, b"other", NOW_S, nonce_seen)
    assert asked == []


def test_two_signatures_have_two_nonces() -> None:
    assert signed()["Goblin-Nonce"] != signed()["Goblin-Nonce"]


@settings(max_examples=50, deadline=None, database=None)
@given(
    headers=st.dictionaries(st.sampled_from(HEADERS), st.text(max_size=130)),
    body=st.binary(max_size=20),
)
def test_any_headers_give_a_wire_error(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(WireError):
        check_request(headers, "POST", PATH, body, NOW_S)


def test_claims_bind_lease_and_grant() -> None:
    signature = sign_claim(KEY, "lease_a", "grant_b")  # type: ignore[arg-type]
    verify_claim(public_key_bytes(KEY), "lease_a", "grant_b", signature)  # type: ignore[arg-type]
    for lease, grant in (("lease_b", "grant_b"), ("lease_a", "grant_a"), ("lease_ag", "rant_b")):
        with pytest.raises(WireError) as caught:
            verify_claim(public_key_bytes(KEY), lease, grant, signature)  # type: ignore[arg-type]
        assert caught.value.code == "claim_signature_wrong"
    with pytest.raises(WireError):
        verify_claim(public_key_bytes(make_key()), "lease_a", "grant_b", signature)  # type: ignore[arg-type]


def test_claim_bytes_are_what_they_were_at_the_first_release() -> None:
    expected = "795f5f5796c71a8707d895bb05293e3b2802deeeb031a32abc1e4ed42aebe6d2"
    assert claim_bytes("lease_a", "grant_b").hex() == expected  # type: ignore[arg-type]


class Paper(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    pages: int
    weight: float


class Poster(Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    pages: int
    weight: float


def test_documents_are_signed_whole() -> None:
    paper = Paper("a", 3, 0.5)
    signature = sign_json(KEY, paper)
    verify_json(public_key_bytes(KEY), paper, signature)
    for other in (Paper("b", 3, 0.5), Paper("a", 4, 0.5), Paper("a", 3, 0.6), Poster("a", 3, 0.5)):
        with pytest.raises(WireError) as caught:
            verify_json(public_key_bytes(KEY), other, signature)
        assert caught.value.code == "document_signature_wrong"


def test_a_document_is_signed_as_it_will_be_read() -> None:
    written = Paper("a", 3, 5)
    read = msgspec.json.decode(msgspec.json.encode(written), type=Paper)
    assert canonical_json(written) == canonical_json(read)
    verify_json(public_key_bytes(KEY), read, sign_json(KEY, written))


def test_a_document_outside_its_declaration_is_not_signed() -> None:
    with pytest.raises(WireError) as caught:
        sign_json(KEY, Paper("a", "three", 0.5))  # type: ignore[arg-type]
    assert caught.value.code == "message_malformed"


def test_fingerprints_have_the_form_that_people_compare() -> None:
    shown = fingerprint(public_key_bytes(KEY))
    assert len(shown) == 19
    assert [len(group) for group in shown.split("-")] == [4, 4, 4, 4]
    assert shown != fingerprint(public_key_bytes(make_key()))


def test_signatures_for_one_purpose_do_not_serve_another() -> None:
    headers = signed()
    signature = bytes.fromhex(headers["Goblin-Signature"])
    with pytest.raises(WireError):
        verify_claim(public_key_bytes(KEY), "lease_a", "grant_b", signature)  # type: ignore[arg-type]
    with pytest.raises(WireError):
        verify_json(public_key_bytes(KEY), Paper("a", 3, 0.5), signature)
