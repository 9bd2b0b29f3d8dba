"""Whole datagrams without descriptors, or nothing."""

from __future__ import annotations

import os

import pytest

from app.engine.protocol import FRAME_BYTES, Log, Ping, Pong, decode, encode
from app.host.channel import Channel
from gpugoblin.errors import EngineError


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
