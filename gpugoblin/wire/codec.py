"""Messages to bytes and back: JSON through msgspec, bounded before decoding.

Owns: the only encode and decode of the wire. Unknown fields are refused by the Structs themselves;
a Struct's field types carry every other bound.

Numbers: a field of whole numbers refuses `5.0`, although JSON Schema would call it an integer; a
field of floats accepts `5` and is always written as `5.0`. NaN and infinity do not exist on the
wire. So one value has one spelling, whichever language wrote it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from gpugoblin.errors import WireError
from gpugoblin.wire.registry import MessageType

__all__ = ["decode", "encode", "message_type"]

T = TypeVar("T", bound=msgspec.Struct)

_encoder = msgspec.json.Encoder(order="deterministic")


def message_type(struct: type[msgspec.Struct]) -> MessageType:
    """The registry entry of a message Struct. Raises LookupError for any other Struct."""
    entry = getattr(struct, "__goblin_message__", None)
    if not isinstance(entry, MessageType):
        raise LookupError(f"{struct.__name__} is not a registered message")
    return entry


@lru_cache(maxsize=256)
def _decoder(struct: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(struct, strict=True)


def encode(value: msgspec.Struct) -> bytes:
    """Deterministic JSON of a message.

    Raises:
        WireError: `message_too_large` when it would not pass the receiver's bound.
    """
    entry = message_type(type(value))
    data = _encoder.encode(value)
    if len(data) > entry.max_bytes:
        raise WireError(
            "message_too_large", message=entry.key, size=len(data), limit=entry.max_bytes
        )
    return data


def decode(struct: type[T], data: bytes | bytearray | memoryview) -> T:
    """A message from bytes.

    Raises:
        WireError: `message_too_large` before anything is decoded; `message_malformed` naming the
            field for anything else that the declaration does not allow.
    """
    entry = message_type(struct)
    if len(data) > entry.max_bytes:
        raise WireError(
            "message_too_large", message=entry.key, size=len(data), limit=entry.max_bytes
        )
    try:
        value: T = _decoder(struct).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise WireError("message_malformed", message=entry.key, reason=str(cause)[:200]) from cause
    return value
