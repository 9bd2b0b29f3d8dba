"""Frames between the node's service and a worker process.

Owns: length, bound and decoding of one frame. Must not: open sockets.

A frame is a 4-byte little-endian length and that many bytes of msgpack: a `Work` toward the worker,
a `Told` back. Both are closed unions; anything else is a broken peer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from gpugoblin import errors
from gpugoblin.errors import GoblinError, VerifyError
from server_stub.node.work import Failed, Told, Work

__all__ = [
    "LENGTH",
    "MAX_FRAME_BYTES",
    "check_length",
    "decode_reply",
    "decode_work",
    "encode_frame",
    "error_of",
    "failed",
    "receive_frame",
]

MAX_FRAME_BYTES: Final = 4 * 1024 * 1024
LENGTH: Final = struct.Struct("<I")

_encoder = msgspec.msgpack.Encoder()
_work: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Work)
_reply: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Told)
T = TypeVar("T")


def encode_frame(message: Work | Told) -> bytes:
    """A frame. Raises VerifyError `worker_protocol` when it would be over the bound."""
    body = _encoder.encode(message)
    check_length(len(body))
    return LENGTH.pack(len(body)) + body


def check_length(size: int) -> None:
    """Raises VerifyError `worker_protocol` for a length over the bound."""
    if size > MAX_FRAME_BYTES:
        reason = f"{size} bytes in one frame, at most {MAX_FRAME_BYTES} are accepted"
        raise VerifyError("worker_protocol", reason=reason)


def _decode(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
    check_length(len(body))
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as cause:
        raise VerifyError("worker_protocol", reason=str(cause)) from cause


def decode_work(body: bytes) -> Work:
    """An item. Raises VerifyError `worker_protocol`."""
    work: Work = _decode(_work, body)
    return work


def decode_reply(body: bytes) -> Told:
    """An answer, or the word that an item was begun. Raises VerifyError `worker_protocol`."""
    reply: Told = _decode(_reply, body)
    return reply


def receive_frame(read: Callable[[int], bytes]) -> bytes | None:
    """One body from a blocking reader; None at a clean end.

    Raises:
        VerifyError: `worker_protocol` for a frame that is cut off or too long.
    """
    head = _exactly(read, LENGTH.size)
    if not head:
        return None
    if len(head) < LENGTH.size:
        raise VerifyError("worker_protocol", reason="the stream ends inside a frame")
    size = LENGTH.unpack(head)[0]
    check_length(size)
    body = _exactly(read, size)
    if len(body) < size:
        raise VerifyError("worker_protocol", reason="the stream ends inside a frame")
    return body


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = read(min(size - len(parts), 1 << 20))
        if not part:
            break
        parts += part
    return bytes(parts)


def failed(work: str, error: GoblinError) -> Failed:
    """The answer that carries an error."""
    fields = {name: str(value)[:500] for name, value in error.fields.items()}
    return Failed(work, type(error).__name__, error.code, fields)


def error_of(reply: Failed) -> GoblinError:
    """The error that an answer carries, in its own family where the code is known here.

    Numbers in the fields come back as numbers, so that sentences with figures can be made again.
    """
    kind = getattr(errors, reply.family, None)
    fields: dict[str, object] = {name: _number(text) for name, text in reply.fields.items()}
    if isinstance(kind, type) and issubclass(kind, GoblinError):
        try:
            return kind(reply.code, **fields)
        except (LookupError, ValueError):
            pass
    return VerifyError("item_failed", reason=f"{reply.code} {reply.fields}"[:500])


def _number(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
