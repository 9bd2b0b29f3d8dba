"""Input arrays: files that are named, and bytes that are sent.

Owns: what may become an input, and the resumable upload of its bytes into the node's own file. Must
not: hold more than a piece of an array in memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from gpugoblin.blobs.files import io_errors, pwrite_all
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import NodeError, StoreError
from gpugoblin.ids import fresh_id
from gpugoblin.wire.messages.job import ArrayCreate
from server_stub.node import results, room
from server_stub.node.node import Node
from server_stub.node.state import arrays, quotas
from server_stub.node.state.arrays import ArrayRow, NewArray
from server_stub.node.state.words import Step
from server_stub.node.submission import describe_again
from server_stub.node.users import User
from server_stub.node.work import Describe, Described

__all__ = ["create", "drop", "receive"]


async def create(node: Node, user: User, message: ArrayCreate) -> ArrayRow:
    """Knows an input array; the equal one of this user is given again.

    Raises:
        NodeError: `file_not_local`, `array_differs`, `body_too_large`, `quota_disk`.
        StoreError: the file is unreadable or truncated, or there is no room for the bytes.
    """
    spec = TensorSpec(message.dtype, message.shape)
    if message.source == "upload":
        return await _begin_upload(node, user, message, spec)
    if not user.local:
        raise NodeError("file_not_local")
    if not Path(message.path).is_absolute() or "\0" in message.path:
        raise NodeError("output_path", path=message.path, reason="it is not an absolute path")
    results.require_outside(node.settings.state, message.path, message.member)
    new = NewArray(
        id=fresh_id("array"), owner=user.name, source=message.source, kind=message.source,
        path=message.path, member=message.member, offset_bytes=message.offset_bytes,
        dtype=message.dtype, shape=message.shape, fingerprint=message.fingerprint,
        stored_bytes=spec.nbytes, complete=True, ours=False,
    )  # fmt: skip
    if message.source != "raw":
        new = replace(new, offset_bytes=await _described_offset(node, message))
    row = ArrayRow(
        new.id, new.owner, new.source, new.kind, new.path, new.member, new.offset_bytes,
        new.dtype, new.shape, new.fingerprint, new.stored_bytes, True, False, "", False, None,
        None,
    )  # fmt: skip
    await describe_again(node, row)
    return await node.handle(lambda step: arrays.add_input(step, new))


async def _described_offset(node: Node, message: ArrayCreate) -> int:
    item = Describe(
        f"describe.{fresh_id('array')}", message.source, message.path, message.member  # type: ignore[arg-type]
    )  # fmt: skip
    reply = await node.pool.run(item)
    if not isinstance(reply, Described):
        raise TypeError(f"a worker answered Describe with {type(reply).__name__}")
    return reply.array.offset_bytes


async def _begin_upload(node: Node, user: User, message: ArrayCreate, spec: TensorSpec) -> ArrayRow:
    if spec.nbytes > node.settings.max_upload_bytes:
        raise NodeError("body_too_large", size=spec.nbytes, limit=node.settings.max_upload_bytes)
    array = fresh_id("array")
    path = node.settings.arrays_root / f"{array}.raw"
    new = NewArray(
        id=array, owner=user.name, source="upload", kind="raw", path=str(path), member="",
        offset_bytes=0, dtype=message.dtype, shape=message.shape, fingerprint=message.fingerprint,
        stored_bytes=0, complete=spec.nbytes == 0, ours=True, final_path=str(path),
    )  # fmt: skip

    def begin(step: Step) -> ArrayRow:
        short = room.short(step.tx, node.settings, [(node.settings.arrays_root, spec.nbytes)])
        row = arrays.add_input(step, new)
        if row.id == array:
            if short is not None:
                raise StoreError(
                    "disk_full", path=str(short.place), needed_bytes=short.needed,
                    free_bytes=short.free,
                )  # fmt: skip
            quotas.require(step, user.name)
        return row

    row = await node.handle(begin)
    if row.id == array:
        await asyncio.to_thread(Path(row.path).touch, 0o600)
    return row


async def receive(node: Node, row: ArrayRow, offset: int, body: AsyncIterator[bytes]) -> ArrayRow:
    """Appends bytes to an upload; what is answered is synced.

    Raises:
        StoreError: `upload_offset` (says where to go on), `upload_too_long`, `disk_full`.
    """
    if row.source != "upload":
        raise NodeError("parameter_invalid", name="array", value=row.id, reason="it is a file")
    lock = node.upload_lock(row.id)
    async with lock:
        fresh = await node.store.read(lambda tx: arrays.of_owner(tx, row.owner, row.id))
        stored = fresh.stored_bytes
        if fresh.complete:
            stored = fresh.nbytes
        if offset != stored:
            raise StoreError("upload_offset", offset=offset, stored_bytes=stored)
        try:
            async for piece in body:
                if stored + len(piece) > fresh.nbytes:
                    raise StoreError(
                        "upload_too_long", size=stored + len(piece), expected=fresh.nbytes
                    )
                await asyncio.to_thread(_write, Path(fresh.path), stored, piece)
                stored += len(piece)
        finally:
            # Bytes of a broken connection count as well: they came in order.
            await asyncio.to_thread(_sync, Path(fresh.path))
            whole = stored == fresh.nbytes
            await node.handle(lambda step: arrays.stored(step, row.id, stored, complete=whole))
    return await node.store.read(lambda tx: arrays.of_owner(tx, row.owner, row.id))


async def drop(node: Node, row: ArrayRow) -> None:
    """Forgets an upload that is not complete, and deletes what came of it."""

    def forget(step: Step) -> bool:
        return arrays.remove_incomplete(step, row.id)

    async with node.upload_lock(row.id):
        if await node.handle(forget):
            await asyncio.to_thread(Path(row.path).unlink, missing_ok=True)


def _write(path: Path, offset: int, piece: bytes) -> None:
    with io_errors(path, len(piece)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            pwrite_all(descriptor, piece, offset)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    with io_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
