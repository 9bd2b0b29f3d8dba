"""Results on their way to the researcher: verified regions, and small outputs as containers.

Owns: the rule that no unverified byte leaves: a region is served when every task that covers it is
used, and its parts are still what was verified (`soundness`). Small boxes are read here in a
thread; large ones are packed by a worker and streamed.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse

from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import NodeError
from gpugoblin.plan.spec import Region
from gpugoblin.units import MIB
from server_stub.node import arrays as files
from server_stub.node.items import array_file
from server_stub.node.node import Node
from server_stub.node.state import arrays, blobs, jobs, retention, tasks
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.work import Box, Prepare, Prepared, RegionInput

__all__ = ["container", "covered", "indices", "region"]

SMALL_BYTES: Final = 4 * MIB
PIECE_BYTES: Final = MIB
OCTETS: Final = "application/octet-stream"
CONTAINER_DTYPES: Final = {
    "float32": "F32",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "uint8": "U8",
    "float16": "F16",
    "bfloat16": "BF16",
    "float64": "F64",
}
MAX_INDEX_TEXT: Final = 200


def indices(name: str, text: str | None) -> tuple[int, ...]:
    """`0,5` -> (0, 5); empty for a scalar. Raises NodeError `parameter_invalid`."""
    if text is None or len(text) > MAX_INDEX_TEXT:
        raise NodeError(
            "parameter_invalid", name=name, value=str(text)[:40], reason="it must be given"
        )
    if text == "":
        return ()
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in parts):
        raise NodeError(
            "parameter_invalid", name=name, value=text[:40], reason="no list of whole numbers"
        )
    return tuple(int(part) for part in parts)


def covered(tx: Tx, row: ArrayRow, region: Region) -> bool:
    """Whether all of a region of an output is verified and in place.

    The outputs of a plan's tasks never overlap, so it is enough to add up what they cover.
    """
    if row.job is None or row.complete:
        return row.complete
    wanted = math.prod(region.shape)
    if wanted == 0:
        return True
    first, last = (region.start[0], region.stop[0]) if region.start else (0, 1)
    found = 0
    for (box,) in tx.rows(
        "select box from fold where job = ? and array = ? and start0 < ? and stop0 > ?",
        (row.job, row.number, last, first),
    ):
        part = tasks.read_box(box)
        sides = (
            min(stop, other_stop) - max(start, other_start)
            for start, stop, other_start, other_stop in zip(
                part.start, part.stop, region.start, region.stop, strict=True
            )
        )
        found += math.prod(max(0, side) for side in sides)
    return found >= wanted


def _checked(row: ArrayRow, start: tuple[int, ...], stop: tuple[int, ...]) -> Region:
    inside = len(start) == len(stop) == len(row.shape) and all(
        0 <= first <= last <= extent
        for first, last, extent in zip(start, stop, row.shape, strict=True)
    )
    if not inside:
        raise NodeError("region_invalid", start=start, stop=stop, shape=row.shape)
    return Region(start, stop)


async def region(
    node: Node, row: ArrayRow, start: tuple[int, ...], stop: tuple[int, ...]
) -> Response:
    """The bytes of a region, C order, little-endian.

    Raises:
        NodeError: `region_invalid`, `region_not_verified`, `array_incomplete`, `result_collected`,
            `result_damaged`.
    """
    box = _checked(row, start, stop)
    await _note_read(node, row)
    if not await node.store.read(lambda tx: covered(tx, row, box)):
        if row.job is None:
            raise NodeError(
                "array_incomplete", array=row.id, stored_bytes=row.stored_bytes,
                expected_bytes=row.nbytes,
            )  # fmt: skip
        raise NodeError("region_not_verified", start=start, stop=stop)
    nbytes = math.prod(box.shape) * DTYPES[row.dtype].itemsize
    # The array may have been given its final name in between: look at its row again.
    fresh = await node.store.read(lambda tx: arrays.of_owner(tx, row.owner, row.id))
    retention.require_kept(fresh)
    await node.sound.require(node, fresh, box)
    file, place = array_file(fresh), Box(start, stop)
    if nbytes <= SMALL_BYTES:
        data = await asyncio.to_thread(files.read_box, file, place)
        return Response(bytes(data), media_type=OCTETS)
    return await _packed(node, RegionInput(file, place), b"", nbytes)


async def _note_read(node: Node, row: ArrayRow) -> None:
    """A cache that is read stays the longer. Raises NodeError `result_collected`."""
    retention.require_kept(row)
    now_s = node.clock.wall_s()
    if await node.store.read(lambda tx: retention.is_unread(tx, row, now_s)):
        await node.handle(lambda step: retention.note_read(step, row.id), brief=True)


async def container(node: Node, job: str, number: int) -> Response:
    """One output of a finished job as a safetensors container with the tensor `output`.

    Raises:
        NodeError: `job_not_done`, `unknown_array`, `output_too_large`, `result_collected`,
            `result_damaged`.
    """
    info = await node.store.read(lambda tx: jobs.info(tx, job))
    if info.state != "done":
        raise NodeError("job_not_done", job=job, state=info.state)
    rows = await node.store.read(lambda tx: arrays.of_job(tx, job))
    if number >= len(rows):
        raise NodeError("unknown_array", array=number)
    row = rows[number]
    await _note_read(node, row)
    if row.nbytes > node.settings.max_output_bytes:
        raise NodeError("output_too_large", nbytes=row.nbytes, limit=node.settings.max_output_bytes)
    await node.sound.require(node, row, Region((0,) * len(row.shape), row.shape))
    entry = {
        "dtype": CONTAINER_DTYPES[row.dtype], "shape": list(row.shape),
        "data_offsets": [0, row.nbytes],
    }  # fmt: skip
    text = json.dumps({"output": entry}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    box = Box((0,) * len(row.shape), row.shape)
    if row.nbytes <= SMALL_BYTES:
        data = await asyncio.to_thread(files.read_box, array_file(row), box)
        return Response(head + bytes(data), media_type=OCTETS)
    return await _packed(node, RegionInput(array_file(row), box), head, row.nbytes)


async def _packed(node: Node, source: RegionInput, head: bytes, nbytes: int) -> Response:
    """Has a worker pack a box, and streams the blob, which is let go of afterwards."""
    blob = await _lend(node, source, nbytes)

    async def stream() -> AsyncIterator[bytes]:
        try:
            if head:
                yield head
            descriptor = os.open(node.blobs.path(blob), os.O_RDONLY | os.O_CLOEXEC)
            try:
                for offset in range(0, nbytes, PIECE_BYTES):
                    yield await asyncio.to_thread(os.pread, descriptor, PIECE_BYTES, offset)
            finally:
                os.close(descriptor)
        finally:
            await asyncio.shield(node.handle(lambda step: _give_back(step, blob)))

    length = {"Content-Length": str(len(head) + nbytes)}
    return StreamingResponse(stream(), headers=length, media_type=OCTETS)


async def _lend(node: Node, source: RegionInput, nbytes: int) -> str:
    while True:
        reply = await node.pool.run(Prepare(f"read.{os.urandom(8).hex()}", source, store=True))
        if not isinstance(reply, Prepared):
            raise TypeError(f"a worker answered Prepare with {type(reply).__name__}")
        blob = reply.blob

        def body(step: Step, blob: str = blob) -> bool:
            if not node.blobs.has(blob):
                return False
            blobs.hold(step, blob, nbytes)
            step.tx.change("insert into lent values(?, ?)", (step.fresh_id("lent"), blob))
            return True

        if await node.handle(body):
            return blob


def _give_back(step: Step, blob: str) -> None:
    row = step.tx.one("select id from lent where blob = ? limit 1", (blob,))
    if row is not None:
        step.tx.change("delete from lent where id = ?", (row[0],))
        blobs.release(step, blob)
