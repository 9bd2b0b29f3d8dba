"""Encoding and decoding: bounds on both sides, short reasons, only registered messages."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.errors import WireError
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.blob import UploadState
from gpugoblin.wire.messages.contact import Demand


def test_bytes_are_deterministic() -> None:
    expected = b'{"stored_bytes":7,"complete":false}'
    assert encode(UploadState(stored_bytes=7, complete=False)) == expected
    assert decode(UploadState, expected) == UploadState(7, False)
    assert decode(UploadState, bytearray(expected)) == decode(UploadState, memoryview(expected))


def test_what_the_receiver_would_refuse_is_not_sent() -> None:
    huge = Demand(lab="x" * 5000, cards_wanted=1)  # type: ignore[arg-type]
    with pytest.raises(WireError) as caught:
        encode(huge)
    assert caught.value.code == "message_too_large"


def test_the_limit_itself_is_accepted() -> None:
    body = b'{"stored_bytes":7,"complete":false}'
    limit = message_type(UploadState).max_bytes
    assert decode(UploadState, body.ljust(limit)) == UploadState(7, False)
    with pytest.raises(WireError):
        decode(UploadState, body.ljust(limit + 1))


def test_reasons_name_the_field_and_stay_short() -> None:
    with pytest.raises(WireError, match=r"stored_bytes"):
        decode(UploadState, b'{"stored_bytes":-1,"complete":true}')
    name = "n" * 3000
    with pytest.raises(WireError) as caught:
        decode(UploadState, f'{{"stored_bytes":1,"complete":true,"{name}":1}}'.encode())
    assert len(str(caught.value.fields["reason"])) <= 200


class Stray(msgspec.Struct):
    number: int


def test_only_registered_messages() -> None:
    for call in (
        lambda: message_type(Stray),
        lambda: encode(Stray(1)),
        lambda: decode(Stray, b"{}"),
    ):
        with pytest.raises(LookupError):
            call()
