"""The words between the node and its Ray bridge: there and back, and bounded."""

from __future__ import annotations

import msgspec
import pytest

from gpugoblin.errors import NodeError, VerifyError
from server_stub.node.executors.ray_words import (
    Answer,
    Do,
    Drop,
    Lost,
    Seat,
    Seats,
    Trouble,
    decode_order,
    decode_said,
    encode,
    trouble_of,
)
from server_stub.node.work import ArrayFile, Box, Folded, Prepare, RegionInput
from server_stub.node.workers.frames import LENGTH, MAX_FRAME_BYTES

__all__: list[str] = []

SEAT = Seat("m1", "host", 2, 100, 50, 7, False)
WORK = Prepare("p.1.-", RegionInput(ArrayFile("npy", "/x", "float32", (2,)), Box((0,), (2,))), True)


@pytest.mark.parametrize("order", [Do("m1", WORK), Drop("c.1.l")])
def test_orders_come_as_they_went(order: Do | Drop) -> None:
    frame = encode(order)
    assert LENGTH.unpack(frame[:4])[0] == len(frame) - 4
    assert decode_order(frame[4:]) == order


@pytest.mark.parametrize(
    "said",
    [Seats((SEAT,)), Answer(Folded("f.1.-")), Lost("c.1.l", "gone"), Trouble("a", {"b": "c"})],
)
def test_what_is_said_comes_as_it_went(said: Seats | Answer | Lost | Trouble) -> None:
    assert decode_said(encode(said)[4:]) == said


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"type": "no"}),
        encode(Drop("x"))[4:],
        msgspec.msgpack.encode({"type": "seats", "seats": [{}]}),
        msgspec.msgpack.encode({"type": "lost", "work": "w" * 500, "reason": ""}),
        b"\x91" * 100_000,
    ],
)
def test_what_is_no_word_is_refused(body: bytes) -> None:
    with pytest.raises(VerifyError) as caught:
        decode_said(body)
    assert caught.value.code == "worker_protocol"


def test_a_frame_is_bounded_both_ways() -> None:
    with pytest.raises(VerifyError):
        decode_order(b"\0" * (MAX_FRAME_BYTES + 1))
    with pytest.raises(VerifyError):
        encode(Lost("x", "y" * (MAX_FRAME_BYTES + 1)))


def test_an_error_travels_with_its_fields() -> None:
    error = NodeError("ray_unreachable", address="h:1", reason="x" * 5000)
    assert trouble_of(error).code == "ray_unreachable"
    assert len(trouble_of(error).fields["reason"]) == 2000
