"""The shared memory between a parent and its engine.

Owns: the making and sealing of a memfd, its one mapping in the parent, and which stretches of it
are in use. Must not: know any message. NumPy is imported only by whoever asks for arrays.

The parent makes and seals the file, so an engine can neither shrink it (which would end the parent
with SIGBUS) nor grow it. An arena of inputs also gets F_SEAL_FUTURE_WRITE once the parent has
mapped it: the parent goes on writing, the engine can only read. An arena of outputs stays writable
by the engine even after it said that it is done: copy bytes out before judging them
(`Arena.chunks`), never judge them in place.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from gpugoblin.errors import EngineError
from gpugoblin.units import GIB, MIB

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ALIGNMENT_BYTES", "MAX_ARENA_BYTES", "Arena", "Slot"]

ALIGNMENT_BYTES: Final = 4096
MAX_ARENA_BYTES: Final = 1024 * GIB
_MFD_NOEXEC_SEAL: Final = 0x0008
_F_SEAL_FUTURE_WRITE: Final = 0x0010


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of an arena in use: `nbytes` asked for, at `offset`, a multiple of 4 KiB."""

    offset: int
    nbytes: int


def _aligned(nbytes: int) -> int:
    return max(1, -(-nbytes // ALIGNMENT_BYTES)) * ALIGNMENT_BYTES


def _make_memfd(name: str) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | _MFD_NOEXEC_SEAL)
    except OSError as cause:
        if cause.errno != errno.EINVAL:  # kernels before 6.3 do not know the flag
            raise
    return os.memfd_create(name, flags)


class Arena:
    """A sealed memfd, mapped once, handed out in slots.

    Args:
        size_bytes: rounded up to 4 KiB. Pages are taken from the machine only when touched.
        kind: `input`: the engine may only read. `output`: the engine may write.

    Raises:
        EngineError: `arena_size_invalid`.
        OSError: the system refuses a memfd of this size.
    """

    def __init__(self, size_bytes: int, kind: Literal["input", "output"]) -> None:
        if not 0 < size_bytes <= MAX_ARENA_BYTES:
            raise EngineError(
                "arena_size_invalid", size_bytes=size_bytes, limit_bytes=MAX_ARENA_BYTES
            )
        self.size_bytes = _aligned(size_bytes)
        self.kind = kind
        # (offset, size) of every free stretch, by offset; neighbors are always merged.
        self._free: list[tuple[int, int]] = [(0, self.size_bytes)]
        self._used: dict[int, Slot] = {}
        self._fd = _make_memfd(f"gpugoblin-{kind}")
        try:
            os.ftruncate(self._fd, self.size_bytes)
            self._map: mmap.mmap | None = mmap.mmap(self._fd, self.size_bytes)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            if kind == "input":
                seals |= _F_SEAL_FUTURE_WRITE
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, seals)
        except BaseException:
            os.close(self._fd)
            raise

    @classmethod
    def pair(cls, input_bytes: int, output_bytes: int) -> tuple[Arena, Arena]:
        """An arena of inputs and one of outputs, or neither."""
        inputs = cls(input_bytes, "input")
        try:
            return inputs, cls(output_bytes, "output")
        except BaseException:
            inputs.close()
            raise

    @property
    def fd(self) -> int:
        """The descriptor to hand to the engine."""
        return self._fd

    @property
    def used_bytes(self) -> int:
        """Bytes in slots that are in use, each rounded up to 4 KiB."""
        return sum(_aligned(slot.nbytes) for slot in self._used.values())

    def allocate(self, nbytes: int) -> Slot:
        """The best-fitting free stretch; the lowest among equals, so that warm pages come again.

        Raises:
            EngineError: `arena_full`, `arena_size_invalid`.
        """
        if not 0 <= nbytes <= MAX_ARENA_BYTES:
            raise EngineError("arena_size_invalid", size_bytes=nbytes, limit_bytes=MAX_ARENA_BYTES)
        wanted = _aligned(nbytes)
        fitting = [(size, offset) for offset, size in self._free if size >= wanted]
        if not fitting:
            raise EngineError("arena_full", size_bytes=self.size_bytes, wanted_bytes=nbytes)
        size, offset = min(fitting)
        self._free.remove((offset, size))
        if size > wanted:
            insort(self._free, (offset + wanted, size - wanted))
        slot = Slot(offset, nbytes)
        self._used[offset] = slot
        return slot

    def free(self, slot: Slot) -> None:
        """Gives a slot back. Its pages stay with the arena, warm for the next one.

        Raises:
            EngineError: `arena_slot_unknown`.
        """
        self._check(slot)
        del self._used[slot.offset]
        offset, size = slot.offset, _aligned(slot.nbytes)
        place = bisect_left(self._free, (offset, 0))
        if place < len(self._free) and self._free[place][0] == offset + size:
            size += self._free.pop(place)[1]
        if place and sum(self._free[place - 1]) == offset:
            before, before_size = self._free.pop(place - 1)
            offset, size = before, before_size + size
        insort(self._free, (offset, size))

    def _check(self, slot: Slot) -> None:
        if self._used.get(slot.offset) != slot:
            raise EngineError("arena_slot_unknown", offset=slot.offset, nbytes=slot.nbytes)

    def view(self, slot: Slot) -> memoryview:
        """The bytes of a slot, writable, in place.

        Raises:
            EngineError: `arena_slot_unknown`, `engine_closed` after `close`.
        """
        self._check(slot)
        if self._map is None:
            raise EngineError("engine_closed", request="view of an arena")
        return memoryview(self._map)[slot.offset : slot.offset + slot.nbytes]

    def array(self, slot: Slot, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """A writable array over the first bytes of a slot, in place.

        Raises:
            EngineError: `arena_slot_unknown`; also when the slot is smaller than the array.
        """
        import numpy as np

        # NumPy has no bfloat16: its bytes are opaque, as in the catalog.
        plain = "V2" if dtype == "bfloat16" else dtype
        kind: np.dtype[Any] = np.dtype(plain).newbyteorder("<")
        count = 1
        for extent in shape:
            count *= extent
        if count * kind.itemsize > slot.nbytes:
            raise EngineError("arena_slot_unknown", offset=slot.offset, nbytes=slot.nbytes)
        return np.frombuffer(self.view(slot), kind, count).reshape(shape)

    def chunks(self, slot: Slot, chunk_bytes: int = MIB) -> Iterator[memoryview]:
        """Private copies of the slot's bytes, piece by piece, each valid until the next one.

        Judge, hash and pass on these copies: what lies in the slot may change under your eyes.
        """
        source = self.view(slot)
        private = memoryview(bytearray(min(chunk_bytes, max(1, slot.nbytes))))
        for start in range(0, slot.nbytes, chunk_bytes):
            size = min(chunk_bytes, slot.nbytes - start)
            private[:size] = source[start : start + size]
            yield private[:size]

    def close(self) -> None:
        """Closes the descriptor and the mapping; views that still exist keep the mapping alive."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        mapping, self._map = self._map, None
        if mapping is not None:
            try:
                mapping.close()
            except BufferError:
                return  # the last view that goes away unmaps it

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
