"""A contributor that returns wrong numbers: the ordinary agent, tampered with.

Owns: the lie. One number in each result is changed before the result is hashed and committed, as a
dishonest or a broken machine would; everything else is the product's own agent.
"""

from __future__ import annotations

import struct
import sys

from app.agent import card_engine
from app.agent.lab import Output
from app.agent.outputs import private_copy
from app.host.arena import Arena, Slot
from app.main import main
from gpugoblin.blobs.chunk import BlobHasher


def _lying_copy(arena: Arena, number: int, slot: Slot) -> Output:
    """The honest copy with its middle float32 off by 0.5."""
    output = private_copy(arena, number, slot)
    private = bytearray(output.data)
    at = len(private) // 8 * 4
    if at + 4 <= len(private):
        (value,) = struct.unpack_from("<f", private, at)
        struct.pack_into("<f", private, at, value + 0.5)
    hasher = BlobHasher()
    hasher.update(memoryview(private))
    return Output(number, hasher.manifest().blob, private)


if __name__ == "__main__":
    vars(card_engine).update(private_copy=_lying_copy)
    sys.exit(main(sys.argv[1:]))
