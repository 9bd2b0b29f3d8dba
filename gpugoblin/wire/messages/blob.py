"""Blobs: chunk lists and uploads. The bytes themselves travel as plain bodies.

Owns: `Manifest` (what a blob is made of) and `UploadState` (how far an upload is).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import BlobHashField, Count, Hex64
from gpugoblin.wire.registry import message

__all__ = ["Manifest", "UploadState"]


@message("blob.manifest", sender="node", receiver="device", max_bytes=8 * 1024 * 1024)
class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """A blob: its size and the hashes of its 4 MiB chunks, in order. The last may be shorter."""

    blob: BlobHashField
    nbytes: Count
    chunks: Annotated[tuple[Hex64, ...], Meta(max_length=100_000)]


@message("blob.upload_state", sender="node", receiver="device", max_bytes=4096)
class UploadState(Struct, frozen=True, forbid_unknown_fields=True):
    """How many bytes of an upload are safely on disk: go on from there."""

    stored_bytes: Count
    complete: bool
