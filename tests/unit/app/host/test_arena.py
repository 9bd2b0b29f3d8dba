"""Sealing, mapping and the slots of an arena."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import random

import numpy as np
import pytest

from app.host.arena import ALIGNMENT_BYTES, MAX_ARENA_BYTES, Arena, Slot
from gpugoblin.errors import EngineError

PAGE = ALIGNMENT_BYTES


def test_neither_kind_can_be_resized_or_unsealed() -> None:
    inputs, outputs = Arena.pair(3 * PAGE, PAGE)
    with inputs, outputs:
        for arena in (inputs, outputs):
            for size in (0, arena.size_bytes * 2):
                with pytest.raises(PermissionError):
                    os.ftruncate(arena.fd, size)
            with pytest.raises(PermissionError):
                fcntl.fcntl(arena.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_the_engine_can_only_read_inputs() -> None:
    with Arena(PAGE, "input") as arena:
        slot = arena.allocate(4)
        arena.view(slot)[:] = b"abcd"
        with pytest.raises(OSError, match=os.strerror(errno.EPERM)):
            os.pwrite(arena.fd, b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(arena.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        again = os.open(f"/proc/self/fd/{arena.fd}", os.O_RDWR)
        try:
            with pytest.raises(PermissionError):
                os.pwrite(again, b"x", 0)
        finally:
            os.close(again)
        with mmap.mmap(arena.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ) as seen:
            assert seen[:4] == b"abcd"
            arena.view(slot)[:] = b"efgh"
            assert seen[:4] == b"efgh"


def test_the_engine_writes_outputs() -> None:
    with Arena(PAGE, "output") as arena:
        slot = arena.allocate(8)
        with mmap.mmap(arena.fd, PAGE) as engine:
            engine[:8] = np.arange(2, dtype="<i4").tobytes()
        assert arena.array(slot, "int32", (2,)).tolist() == [0, 1]


def test_pages_are_taken_when_touched() -> None:
    with Arena(1 << 30, "output") as arena:
        assert os.fstat(arena.fd).st_blocks == 0
        arena.view(arena.allocate(1))[0] = 1
        assert os.fstat(arena.fd).st_blocks * 512 == PAGE


@pytest.mark.parametrize("size", [0, -1, MAX_ARENA_BYTES + 1])
def test_sizes_are_bounded(size: int) -> None:
    with pytest.raises(EngineError) as caught:
        Arena(size, "input")
    assert caught.value.code == "arena_size_invalid"


def test_best_fit_and_warm_reuse() -> None:
    with Arena(16 * PAGE, "output") as arena:
        slots = [arena.allocate(size * PAGE) for size in (4, 1, 2, 1, 8)]
        arena.free(slots[0])
        arena.free(slots[2])
        assert arena.allocate(2 * PAGE - 5).offset == slots[2].offset
        assert arena.allocate(PAGE).offset == slots[0].offset
        assert arena.allocate(3 * PAGE).offset == slots[0].offset + PAGE
        with pytest.raises(EngineError) as caught:
            arena.allocate(1)
        assert caught.value.code == "arena_full"


def test_random_use_never_overlaps_and_ends_whole() -> None:
    draw = random.Random(7)
    with Arena(64 * PAGE, "output") as arena:
        held: list[Slot] = []
        for _ in range(3000):
            if held and draw.random() < 0.5:
                arena.free(held.pop(draw.randrange(len(held))))
                continue
            try:
                slot = arena.allocate(draw.randrange(0, 9 * PAGE))
            except EngineError:
                continue
            for other in held:
                assert (
                    slot.offset + slot.nbytes <= other.offset
                    or other.offset + max(1, other.nbytes) <= slot.offset
                )
            held.append(slot)
        for slot in held:
            arena.free(slot)
        assert arena.used_bytes == 0
        assert arena.allocate(64 * PAGE) == Slot(0, 64 * PAGE)


def test_only_slots_in_use_count() -> None:
    with Arena(4 * PAGE, "output") as arena:
        slot = arena.allocate(10)
        for wrong in (Slot(slot.offset, 11), Slot(PAGE, 10), Slot(-PAGE, 10)):
            with pytest.raises(EngineError) as caught:
                arena.view(wrong)
            assert caught.value.code == "arena_slot_unknown"
        arena.free(slot)
        with pytest.raises(EngineError):
            arena.free(slot)


def test_an_array_must_fit_its_slot() -> None:
    with Arena(4 * PAGE, "output") as arena:
        slot = arena.allocate(16)
        assert arena.array(slot, "float32", (2, 2)).shape == (2, 2)
        assert arena.array(slot, "float32", (0, 5)).size == 0
        assert arena.array(slot, "bool", ()).shape == ()
        with pytest.raises(EngineError) as caught:
            arena.array(slot, "int64", (3,))
        assert caught.value.code == "arena_slot_unknown"


def test_chunks_are_private_copies() -> None:
    with Arena(4 * PAGE, "output") as arena:
        slot = arena.allocate(10_000)
        view = arena.view(slot)
        view[:] = bytes(range(250)) * 40
        expected = bytes(view)
        seen = bytearray()
        for chunk in arena.chunks(slot, 4096):
            view[:] = bytes(10_000)  # the engine goes on writing
            seen += chunk
        assert len(seen) == 10_000
        assert seen[:4096] == expected[:4096]
        assert not any(seen[4096:])
        empty = arena.allocate(0)
        assert list(arena.chunks(empty)) == []
        view.release()


def test_views_may_outlive_the_arena() -> None:
    arena = Arena(PAGE, "output")
    array = arena.array(arena.allocate(4), "int32", (1,))
    arena.close()
    arena.close()
    array[0] = 5
    assert array.tolist() == [5]
    del array
    with pytest.raises(EngineError) as caught:
        arena.view(Slot(0, 4))
    assert caught.value.code == "engine_closed"


def test_a_pair_that_fails_leaves_nothing() -> None:
    with pytest.raises(EngineError):
        Arena.pair(PAGE, 0)
