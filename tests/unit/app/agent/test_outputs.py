"""Sizes of outputs, and copies that nobody changes any more."""

from __future__ import annotations

import msgspec

from app.agent.outputs import output_bytes, private_copy
from app.host.arena import Arena
from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.units import MIB
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.messages.task import OutputSpec
from tests.helpers.messages import example


def test_sizes_of_outputs() -> None:
    outputs = (
        OutputSpec(0, "float32", (3, 5)),
        OutputSpec(1, "int64", ()),
        OutputSpec(2, "bool", (7, 0)),
    )
    task = msgspec.structs.replace(example(Lease, bare=True).task, outputs=outputs)
    assert output_bytes(task) == (60, 8, 0)


def test_a_copy_is_what_lay_there_and_its_own() -> None:
    arena = Arena(4 * MIB, "output")
    slot = arena.allocate(MIB + 5)
    arena.view(slot)[:] = bytes(range(251)) * ((MIB + 5) // 251) + bytes((MIB + 5) % 251)
    wanted = bytes(arena.view(slot))
    output = private_copy(arena, 3, slot)
    arena.view(slot)[:5] = b"other"
    assert (output.slot, bytes(output.data), output.blob) == (3, wanted, blob_hash(wanted))
    arena.close()
