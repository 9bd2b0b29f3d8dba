"""Frames: round trips, bounds, and what is no frame."""

from __future__ import annotations

import io

import msgspec
import pytest

from gpugoblin.errors import StoreError, VerifyError
from server_stub.node.work import Begun, Describe, Failed, Folded, Prepared
from server_stub.node.workers.frames import (
    LENGTH,
    MAX_FRAME_BYTES,
    decode_reply,
    decode_work,
    encode_frame,
    error_of,
    failed,
    receive_frame,
)


def test_round_trip() -> None:
    work = Describe("w", "npy", "/a/b")
    reply = Prepared("w", "0" * 64, 12)
    stream = io.BytesIO(encode_frame(work) + encode_frame(reply))
    assert decode_work(receive_frame(stream.read) or b"") == work
    assert decode_reply(receive_frame(stream.read) or b"") == reply
    assert receive_frame(stream.read) is None
    assert decode_reply(encode_frame(Begun("w"))[LENGTH.size :]) == Begun("w")


def test_what_is_no_frame() -> None:
    good = encode_frame(Folded("w"))
    for data in (good[:2], good[:-1], LENGTH.pack(MAX_FRAME_BYTES + 1)):
        with pytest.raises(VerifyError) as caught:
            receive_frame(io.BytesIO(data).read)
        assert caught.value.code == "worker_protocol"


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", msgspec.msgpack.encode({"type": "folded"}), msgspec.msgpack.encode([1])],
)
def test_what_is_no_message(body: bytes) -> None:
    for decode in (decode_work, decode_reply):
        with pytest.raises(VerifyError) as caught:
            decode(body)
        assert caught.value.code == "worker_protocol"


def test_a_reply_is_no_work() -> None:
    with pytest.raises(VerifyError):
        decode_work(encode_frame(Folded("w"))[LENGTH.size :])


def test_too_long() -> None:
    with pytest.raises(VerifyError):
        encode_frame(Describe("w", "npy", "x" * MAX_FRAME_BYTES))


def test_errors_travel() -> None:
    error = StoreError("disk_full", path="/x", needed_bytes=5, free_bytes=3)
    back = error_of(failed("w", error))
    assert isinstance(back, StoreError)
    assert (back.code, str(back)) == (error.code, str(error))
    figure = VerifyError("product_mismatch", error=0.5, threshold=0.25)
    assert str(error_of(failed("w", figure))) == str(figure)


@pytest.mark.parametrize(
    "reply",
    [
        Failed("w", "StoreError", "no_such_code", {}),
        Failed("w", "os", "disk_full", {}),
        Failed("w", "StoreError", "disk_full", {}),
    ],
)
def test_unknown_errors_become_known_ones(reply: Failed) -> None:
    assert error_of(reply).code == "item_failed"
