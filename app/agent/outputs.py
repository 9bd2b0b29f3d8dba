"""The outputs of a task: their sizes, and private copies of what an engine wrote.

Owns: both. Must not: trust a slot after it was copied: an engine may change what lies in its arena.
"""

from __future__ import annotations

from typing import Final

from app.agent.lab import Output
from app.host.arena import Arena, Slot
from gpugoblin.blobs.chunk import BlobHasher
from gpugoblin.units import MIB
from gpugoblin.wire.messages.task import Task

__all__ = ["output_bytes", "private_copy"]

ITEM_BYTES: Final = {
    "float32": 4,
    "int32": 4,
    "int64": 8,
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint8": 1,
    "float16": 2,
    "bfloat16": 2,
}


def output_bytes(task: Task) -> tuple[int, ...]:
    """The size of each output of a task, in its order."""
    sizes = []
    for output in task.outputs:
        count = 1
        for extent in output.shape:
            count *= extent
        sizes.append(count * ITEM_BYTES[output.dtype])
    return tuple(sizes)


def private_copy(arena: Arena, number: int, slot: Slot) -> Output:
    """Copies a slot 1 MiB at a time and hashes the copies, never the slot."""
    private = bytearray(slot.nbytes)
    view, source = memoryview(private), arena.view(slot)
    hasher = BlobHasher()
    for start in range(0, slot.nbytes, MIB):
        piece = view[start : start + MIB]
        piece[:] = source[start : start + MIB]
        hasher.update(piece)
    return Output(number, hasher.manifest().blob, private)
