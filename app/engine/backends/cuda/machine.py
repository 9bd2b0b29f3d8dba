"""One NVIDIA card ready to compute: device, kernels, cuBLAS, the block that programs share.

Owns: all that outlives a program, and the moving of tensors between host and card. Must not: know
an operator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from app.engine.backends.cuda.compiler import compiled
from app.engine.backends.cuda.device import Device
from app.engine.backends.cuda.loader import Library, require
from app.engine.backends.cuda.product import Blas
from app.engine.backends.cuda.source import ENTRY, Source, translated
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError
from gpugoblin.hashing import digest
from gpugoblin.units import MIB

__all__ = ["Event", "Loaded", "Machine"]

STAGING_BYTES: Final = 16 * MIB
IDLE_KEPT: Final = 64
"""Kernels that no program holds and that are kept for the next one."""
DOMAIN: Final = "gpugoblin 2026-12 kernel words"
_EVENT_FLAGS: Final = 1 | 2  # the waiting thread sleeps; no time stamp
_NOT_READY: Final = 600
SPINS: Final = 200
"""Times that a wait asks before its thread sleeps: short work is done by then."""


class Loaded:
    """A kernel on the card, until `close`."""

    def __init__(self, device: Device, source: Source, code: bytes) -> None:
        self.source = source
        self._library = device.library
        self._module: ctypes.c_void_p | None = ctypes.c_void_p()
        self.function = ctypes.c_void_p()
        library = device.library
        require(library.cuModuleLoadData(ctypes.byref(self._module), code), "loading a kernel")
        require(
            library.cuModuleGetFunction(
                ctypes.byref(self.function), self._module, ENTRY.encode("ascii")
            ),
            "loading a kernel",
        )

    def close(self) -> None:
        if self._module is not None:
            require(self._library.cuModuleUnload(self._module), "unloading a kernel")
            self._module = None


class Event:
    """A place in the stream that can be waited for, until `close`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p()
        require(
            device.library.cuEventCreate(ctypes.byref(self._handle), _EVENT_FLAGS),
            "making an event",
        )

    def record(self) -> None:
        device = self._device
        require(device.library.cuEventRecord(self._handle, device.stream), "marking a place")

    def wait(self) -> None:
        """Raises EngineError `card_lost`, `card_failed`."""
        library = self._device.library
        for _ in range(SPINS):
            result = library.cuEventQuery(self._handle)
            if result != _NOT_READY:
                require(result, "waiting for the card")
                return
        require(library.cuEventSynchronize(self._handle), "waiting for the card")

    def close(self) -> None:
        if self._handle is not None:
            self._device.library.cuEventDestroy_v2(self._handle)
            self._handle = None


class Machine:
    """Args:
        uuid: of the card; empty for the first.
        compile: CUDA C to machine code of an architecture.

    Raises:
        EngineError: `card_missing`, `card_unsuited`, `card_failed`.
    """

    def __init__(
        self,
        uuid: str = "",
        *,
        library: Library | None = None,
        blas: Library | None = None,
        compile: Callable[[Source, int], bytes] = compiled,
    ) -> None:
        self.device = Device(uuid, library)
        self.blas = Blas(self.device, blas)
        self._compile = compile
        self.block: int | None = None
        self.block_bytes = 0
        self.tenant: object | None = None
        """The program that ran in the block last: its constants still lie there."""
        self._staging = [_Staging(self.device) for _ in range(2)]
        self._loaded: dict[str, Loaded] = {}
        self._users: dict[str, int] = {}
        self.weight_per_s = 1e11
        """How fast the card was seen to be, in the units of a program's steps."""

    # -- kernels -------------------------------------------------------------------------------

    def claim(self, words: bytes) -> str:
        """The name of a module's kernel, compiled once, kept until its claims are dropped."""
        key = digest(DOMAIN, [words])
        if key not in self._loaded:
            source = translated(words)
            code = self._compile(source, self.device.card.architecture)
            self._loaded[key] = Loaded(self.device, source, code)
        self._users[key] = self._users.get(key, 0) + 1
        return key

    def kernel(self, key: str) -> Loaded:
        return self._loaded[key]

    def drop(self, keys: Sequence[str]) -> None:
        """Ends claims; the card must be done with these kernels."""
        for key in keys:
            self._users[key] -= 1
        idle = [key for key, users in self._users.items() if users == 0]
        for key in idle[: max(0, len(idle) - IDLE_KEPT)]:
            del self._users[key]
            self._loaded.pop(key).close()

    # -- memory --------------------------------------------------------------------------------

    def hold(self, size_bytes: int) -> int:
        """The address of the block for tensors, of at least this size. Its contents are not kept.

        Raises:
            MemoryError: the card has not that much.
        """
        self.device.enter()
        if self.block is not None and self.block_bytes >= size_bytes:
            return self.block
        if self.block is not None:
            self.device.synchronize()
            self.device.free(self.block)  # the old one goes before the new one comes
            self.block = self.tenant = None
        try:
            self.block = self.device.allocate(size_bytes)
        except EngineError as cause:
            if cause.code == "card_memory":
                raise MemoryError from cause
            raise
        self.block_bytes = size_bytes
        return self.block

    def upload(self, block: int, tensors: Sequence[tuple[int, Array]]) -> None:
        """Queues the copies of arrays to places of the block; they may change afterwards."""
        library, turn = self.device.library, 0
        for place, array in tensors:
            flat = array.reshape(-1).view(np.uint8)
            for start in range(0, flat.size, STAGING_BYTES):
                part = flat[start : start + STAGING_BYTES]
                stage = self._staging[turn % 2]
                turn += 1
                stage.event.wait()
                stage.bytes[: part.size] = part
                require(
                    library.cuMemcpyHtoDAsync_v2(
                        block + place + start, stage.address, part.size, self.device.stream
                    ),
                    "bringing a tensor",
                )
                stage.event.record()

    def download(self, block: int, tensors: Sequence[tuple[int, Array]]) -> None:
        """Fills C-contiguous arrays from places of the block, after all that was queued."""
        pending: list[tuple[_Staging, Array]] = []
        turn = 0
        for place, array in tensors:
            flat = array.reshape(-1).view(np.uint8)
            for start in range(0, flat.size, STAGING_BYTES):
                part = flat[start : start + STAGING_BYTES]
                if len(pending) == 2:
                    _fetch(*pending.pop(0))
                stage = self._staging[turn % 2]
                turn += 1
                require(
                    self.device.library.cuMemcpyDtoHAsync_v2(
                        stage.address, block + place + start, part.size, self.device.stream
                    ),
                    "fetching a tensor",
                )
                stage.event.record()
                pending.append((stage, part))
        for stage, part in pending:
            _fetch(stage, part)

    def close(self) -> None:
        """Waits for the card and gives everything back."""
        self.device.enter()
        self.device.synchronize()
        for stage in self._staging:
            stage.close()
        for kernel in self._loaded.values():
            kernel.close()
        self._loaded.clear()
        if self.block is not None:
            self.device.free(self.block)
            self.block = None
        self.blas.close()
        self.device.close()


class _Staging:
    """Memory of the host that the card reads and writes by itself."""

    def __init__(self, device: Device) -> None:
        self._library = device.library
        found = ctypes.c_void_p()
        require(
            self._library.cuMemAllocHost_v2(ctypes.byref(found), STAGING_BYTES),
            "allocating staging memory",
        )
        self.address = found.value or 0
        raw = (ctypes.c_uint8 * STAGING_BYTES).from_address(self.address)
        self.bytes: Array = np.frombuffer(memoryview(raw), np.uint8)
        self.event = Event(device)
        self.event.record()

    def close(self) -> None:
        self.event.close()
        self.bytes = np.empty(0, np.uint8)
        require(self._library.cuMemFreeHost(self.address), "freeing staging memory")


def _fetch(stage: _Staging, part: Array) -> None:
    stage.event.wait()
    part[...] = stage.bytes[: part.size]
