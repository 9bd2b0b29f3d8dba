"""What the lab node and its Ray bridge say to each other, and what both know about seats.

Owns: the messages over the bridge's socket and their bounds. Must not: import ray, open sockets.

A *seat* is one Ray machine with an engine of ours on it. Its id is Ray's id of the machine, which
is new each time that Ray is started there; its marks tell whether two seats are one computer.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import GoblinError, VerifyError
from server_stub.node.work import Reply, Work
from server_stub.node.workers.frames import LENGTH, check_length

__all__ = [
    "MAX_SEATS",
    "Answer",
    "BridgeConfig",
    "Do",
    "Drop",
    "Lost",
    "Seat",
    "Seats",
    "Trouble",
    "decode_order",
    "decode_said",
    "encode",
    "trouble_of",
]

MAX_SEATS: Final = 4096

_Text = Annotated[str, Meta(max_length=2000)]
_Id = Annotated[str, Meta(max_length=128)]


class Seat(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine of the Ray cluster that computes for this node.

    Args:
        threads: of its engine.
        shares_disk: it sees the node's own blob store; else blobs are carried to it in pieces.
        dtypes: what its engine has (`gpugoblin.graph.dtypes.Dtypes.mask`).
        marks: of the computer. Two seats that share one are taken for the same computer.
    """

    seat: _Id
    host: _Text
    threads: int
    memory_bytes: int
    slot_bytes: int
    dtypes: int
    shares_disk: bool
    marks: Annotated[tuple[_Id, ...], Meta(max_length=8)] = ()


class BridgeConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """What a bridge is started with.

    Args:
        address: of the Ray cluster, `host:port`.
        namespace: what this node's actors stand under.
        blob_root, marker: the node's blob store, and a file beside it that tells whether a
            machine sees the same disk.
        level: walls of the engines.
        threads: of one engine; 0: as many as Ray says that the machine has processors.
        resource: only machines with this custom Ray resource are used; empty: all.
        worker_dir: directory on Ray machines for blobs and the engine's runtime; empty: the
            user's cache directory there.
        cache_bytes: carried blobs that a machine keeps.
    """

    address: str
    namespace: str
    blob_root: str
    marker: str
    level: str
    threads: int
    memory_bytes: int
    slot_bytes: int
    reserve_bytes: int
    resource: str
    worker_dir: str
    cache_bytes: int
    catalog_hash: str
    version: str


class Do(Struct, frozen=True, forbid_unknown_fields=True, tag="do"):
    """To the bridge: have a seat do an item. Its inputs are blobs of the node's store."""

    seat: _Id
    work: Work


class Drop(Struct, frozen=True, forbid_unknown_fields=True, tag="drop"):
    """To the bridge: the answer to this item is not wanted any more."""

    work: _Id


class Seats(Struct, frozen=True, forbid_unknown_fields=True, tag="seats"):
    """From the bridge: every seat that works now. Others are gone, with what they had."""

    seats: Annotated[tuple[Seat, ...], Meta(max_length=MAX_SEATS)]


class Answer(Struct, frozen=True, forbid_unknown_fields=True, tag="answer"):
    """From the bridge: an item's answer; what it stored is in the node's own store."""

    reply: Reply


class Lost(Struct, frozen=True, forbid_unknown_fields=True, tag="lost"):
    """From the bridge: the seat of this item is gone."""

    work: _Id
    reason: _Text


class Trouble(Struct, frozen=True, forbid_unknown_fields=True, tag="trouble"):
    """From the bridge: why there are fewer seats than there could be; an empty code: no more."""

    code: _Id
    fields: Annotated[dict[_Id, _Text], Meta(max_length=16)]


Order = Do | Drop
Said = Seats | Answer | Lost | Trouble

_encoder = msgspec.msgpack.Encoder()
_order: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Order)
_said: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Said)


def encode(message: Order | Said) -> bytes:
    """A frame. Raises VerifyError `worker_protocol` when it would be over the bound."""
    body = _encoder.encode(message)
    check_length(len(body))
    return LENGTH.pack(len(body)) + body


def decode_order(body: bytes) -> Order:
    """What a bridge is told. Raises VerifyError `worker_protocol`."""
    order: Order = _decode(_order, body)
    return order


def decode_said(body: bytes) -> Said:
    """What a bridge says. Raises VerifyError `worker_protocol`."""
    said: Said = _decode(_said, body)
    return said


def _decode(decoder: msgspec.msgpack.Decoder[Any], body: bytes) -> Any:
    check_length(len(body))
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as cause:
        raise VerifyError("worker_protocol", reason=str(cause)) from cause


def trouble_of(error: GoblinError) -> Trouble:
    """An error on its way to the node."""
    return Trouble(error.code, {name: str(value)[:2000] for name, value in error.fields.items()})
