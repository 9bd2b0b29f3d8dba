"""Header, bounds and round trip of every message."""

from __future__ import annotations

import random

import pytest

from app.engine import protocol
from app.engine.protocol import (
    BODY_BYTES,
    FRAME_BYTES,
    HEADER_BYTES,
    Cancel,
    Done,
    Export,
    Exported,
    Failed,
    Frame,
    Log,
    Lost,
    Message,
    Ping,
    Place,
    Pong,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Refused,
    Run,
    decode,
    encode,
    overhead_bytes,
)
from gpugoblin.errors import EngineError

MESSAGES: list[Message] = [
    Ready("engine-1", "numpy-2", "cpu", "0" * 64, "f" * 64, 2, {"level": "full", "abi": 4}),
    Ready("e", "n", "cpu", "0" * 64, "f" * 64, 2, {}, ("bool", "int8"), ("int8",), ("float32",)),
    Run("exact", (Place(0, 4),), (Place(4096, 8), Place(8192, 0)), b"\x00graph\xff"),
    Run("float32", (), (), b"", Place(4096, 100_000)),
    Cancel(),
    Ping(7),
    Pong(7),
    Done(1.5, 1 << 40),
    Refused("does_not_fit", 1 << 50),
    Failed("index_out_of_range", 3, "none", (-(2**63), 0, 2**63 - 1)),
    Log("printable ~"),
    Progress(0.5),
    Prepare(("0" * 16,), ("f" * 16,), Place(0, 64)),
    Prepare(),
    Prepared(True),
    Export(Place(4096, 64)),
    Exported(64),
    Lost(("0123456789abcdef",) * 64),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_back(message: Message) -> None:
    datagram = encode(message, 2**64 - 1, 12)
    assert decode(datagram) == Frame(2**64 - 1, 12, message)


def test_the_bytes_of_a_message_are_fixed() -> None:
    header = "47476531 0100 0400 00000000 0b000000 0200000000000000 0000000000000000"
    assert encode(Ping(7), 2) == bytes.fromhex(header) + b'{"token":7}'
    assert HEADER_BYTES == 32


def test_the_widest_task_fits() -> None:
    place = Place(2**38 - 4096, 2**30)
    run = Run("float32", (place,) * 256, (place,) * 256, b"", place)
    assert len(encode(run, 0, 1)) <= FRAME_BYTES


def test_a_task_that_is_too_wide_is_not_sent() -> None:
    place = Place(2**62, 2**62)
    with pytest.raises(EngineError) as caught:
        encode(Run("float32", (place,) * 256, (place,) * 256), 0)
    assert caught.value.code == "engine_message_too_large"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"token":-1}',
        b'{"token":2147483648}',
        b'{"token":1.5}',
        b'{"token":"1"}',
        b'{"token":1,"more":1}',
        b'{"token":1}x',
        b'{"token":1e999}',
        b"\xff",
        b"[" * 5000,
    ],
)
def test_bodies_are_checked(body: bytes) -> None:
    header = protocol.HEADER.pack(b"GGe1", 1, 4, 0, len(body), 0, 0)
    with pytest.raises(EngineError) as caught:
        decode(header + body)
    assert caught.value.code == "engine_message_malformed"


@pytest.mark.parametrize(
    "message",
    [
        Log("x" * 201),
        Log("line\nbreak"),
        Log("\u00e9"),
        Progress(1.01),
        Done(-1.0, 0),
        Done(0.0, 2**62 + 1),
        Refused("does_not_fit", 0, "two words"),
        Failed("cancelled", -2),
        Failed("cancelled", 0, "none", (1,) * 5),
        Ready("x" * 65, "d", "cpu", "0" * 64, "0" * 64, 1, {}),
        Ready("b", "d", "cpu", "0" * 63, "0" * 64, 1, {}),
        Ready("b", "d", "cpu", "0" * 64, "0" * 64, 0, {}),
        Ready("b", "d", "cpu", "0" * 64, "0" * 64, 1, {}, ("float128",)),  # type: ignore[arg-type]
        Ready("b", "d", "cpu", "0" * 64, "0" * 64, 1, {}, ("bool",) * 17),
        Ready("b", "d", "cpu", "0" * 64, "0" * 64, 1, {f"k{n}": 1 for n in range(65)}),
        Run("float32", (Place(0, 1),) * 257, ()),
        Run("float32", (), (), b"x" * (protocol.INLINE_GRAPH_BYTES + 1)),
    ],
)
def test_fields_are_bounded(message: Message) -> None:
    with pytest.raises(EngineError) as caught:
        decode(encode(message, 0))
    assert caught.value.code == "engine_message_malformed"


def test_sizes_are_checked_before_anything_is_read() -> None:
    for datagram, code in [
        (b"x" * (FRAME_BYTES + 1), "engine_message_too_large"),
        (b"GGe1", "engine_message_malformed"),
        (b"", "engine_message_malformed"),
    ]:
        with pytest.raises(EngineError) as caught:
            decode(datagram)
        assert caught.value.code == code
    assert BODY_BYTES == FRAME_BYTES - 32


def test_mutated_messages_decode_or_are_refused() -> None:
    draw = random.Random(11)
    refused = 0
    for _ in range(3000):
        datagram = bytearray(encode(draw.choice(MESSAGES), draw.randrange(9), draw.randrange(9)))
        for _ in range(draw.randrange(1, 4)):
            datagram[draw.randrange(len(datagram))] = draw.randrange(256)
        try:
            frame = decode(bytes(datagram))
        except EngineError:
            refused += 1
        else:
            assert decode(encode(frame.message, frame.sequence, frame.task)) == frame
    assert refused > 1000


def test_overhead_grows_with_threads() -> None:
    assert overhead_bytes(2) - overhead_bytes(1) == 64 << 20
