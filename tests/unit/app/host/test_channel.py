"""Whole datagrams without descriptors, or nothing."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest

from app.engine.protocol import (
    FRAME_BYTES,
    Done,
    Exported,
    Failed,
    Log,
    Lost,
    Ping,
    Pong,
    Prepared,
    Progress,
    Ready,
    Refused,
    decode,
    encode,
)
from app.host.channel import Channel
from gpugoblin.errors import EngineError
from gpugoblin.units import MIB

VALID = tuple(
    encode(message, 3, 5)
    for message in (
        Ready("b", "d", "cpu", "a" * 64, "c" * 64, 2, {"net": True, "abi": 6, "level": "full"}),
        Pong(2), Done(0.5, 4096), Refused("does_not_fit", 10), Failed("index_out_of_range", 1),
        Log("a line"), Progress(0.25), Prepared(True), Exported(64), Lost(("0123456789abcdef",)),
    )
)  # fmt: skip


def test_messages_are_numbered_and_come_whole() -> None:
    channel = Channel()
    try:
        assert channel.receive() is None
        assert channel.send(Ping(1))
        assert channel.send(Ping(2), task=5)
        first, second = (decode(os.read(channel.engine_fd, FRAME_BYTES)) for _ in range(2))
        assert (first.sequence, first.message) == (0, Ping(1))
        assert (second.sequence, second.task) == (1, 5)
        os.write(channel.engine_fd, encode(Pong(2), 0))
        os.write(channel.engine_fd, encode(Log("x" * 200), 1))
        got = channel.receive()
        assert got is not None
        assert got.message == Pong(2)
        assert channel.receive() is not None
    finally:
        channel.close()


def test_a_message_too_large_is_a_lie() -> None:
    channel = Channel()
    try:
        os.write(channel.engine_fd, b"x" * (FRAME_BYTES + 1))
        with pytest.raises(EngineError) as caught:
            channel.receive()
        assert caught.value.code == "engine_lied"
    finally:
        channel.close()


def test_the_end_of_the_engine_is_seen() -> None:
    channel = Channel()
    try:
        channel.forget_engine_end()
        with pytest.raises(EOFError):
            channel.receive()
        assert not channel.send(Ping(1))
    finally:
        channel.close()


def test_an_engine_that_does_not_read_fills_its_queue() -> None:
    channel = Channel()
    try:
        sent = 0
        while channel.send(Ping(1)):
            sent += 1
            assert sent < 100_000
        assert sent > 0
    finally:
        channel.close()


def _datagram(draw: random.Random) -> bytes:
    """A message of an engine that was changed, cut, joined or made up."""
    valid = draw.choice(VALID)
    kind = draw.randrange(8)
    if kind == 0:
        return draw.randbytes(draw.randrange(1, 64))
    if kind == 1:
        return valid[: draw.randrange(1, len(valid))]
    if kind == 2:
        return valid + draw.choice(VALID)
    changed = bytearray(valid)
    for _ in range(draw.randrange(1, 5)):
        changed[draw.randrange(len(changed))] = draw.choice(b'{}[]",:0019-e\\x00\xff\x7f')
    return bytes(changed)


def fuzz(count: int, seed: int) -> tuple[int, int]:
    """Hostile messages over a real channel: how many were understood, and how many refused.

    Anything but a message or a refusal ends this with the exception.
    """
    draw = random.Random(seed)
    channel = Channel()
    understood = refused = 0
    engine = socket.socket(fileno=os.dup(channel.engine_fd))
    try:
        for number in range(count):
            if number % 1000 == 0:  # descriptors, which must not arrive
                socket.send_fds(engine, [draw.choice(VALID)], [engine.fileno()] * 8)
            else:
                engine.send(_datagram(draw))
            try:
                understood += channel.receive() is not None
            except EngineError as error:
                refused += error.code == "engine_lied"
    finally:
        engine.close()
        channel.close()
    return understood, refused


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def hostile(count: int, seed: int) -> None:
    fuzz(1000, seed)  # what is loaded once is loaded
    before, memory = descriptors(), resident_bytes()
    understood, refused = fuzz(count, seed)
    assert understood + refused == count
    assert understood > count // 100  # changed, but still a message: the border is tried
    assert refused > count // 2
    assert descriptors() == before
    assert resident_bytes() - memory < 32 * MIB


def test_hostile_messages_are_understood_or_refused_and_leave_nothing() -> None:
    hostile(5_000, 5)


@pytest.mark.slow  # a quarter of an hour
@pytest.mark.timeout(3600)
def test_ten_million_hostile_messages() -> None:
    hostile(10_000_000, 6)
