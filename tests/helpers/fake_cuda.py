"""A driver of CUDA and a cuBLAS that compute in the host's memory, for tests without a card.

Owns: allocation, copies, fills, captured graphs, and products in the column order of cuBLAS.
Kernels are not run; what was launched is remembered.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.source import Source

__all__ = ["FakeBlas", "FakeCuda", "fake_machine"]

OUT_OF_MEMORY = 2


@dataclass
class FakeCuda:
    """Args:
    free_bytes: of the card.
    architectures: of its cards, as (major, minor).
    """

    free_bytes: int = 1 << 30
    architectures: tuple[tuple[int, int], ...] = ((9, 0),)
    failing: dict[str, int] = field(default_factory=dict)
    """Functions that answer an error, and which."""
    launches: list[tuple[tuple[int, ...], int, list[int]]] = field(default_factory=list)
    """Groups, threads and addresses of every kernel that was run."""
    memory: dict[int, Any] = field(default_factory=dict)
    modules: int = 0
    graphs: list[list[Callable[[], None]]] = field(default_factory=list)
    capture: list[Callable[[], None]] | None = None

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)
        action = getattr(type(self), f"_{name.removesuffix('_v2')}", None)

        def call(*given: Any) -> int:
            if name in self.failing:
                return self.failing[name]
            return int((action(self, *given) if action else 0) or 0)

        return call

    def do(self, work: Callable[[], None]) -> None:
        """Now, or when the captured graph is launched."""
        if self.capture is None:
            work()
        else:
            self.capture.append(work)

    # -- the card ------------------------------------------------------------------------------

    def _cuDeviceGetCount(self, count: Any) -> None:
        count._obj.value = len(self.architectures)

    def _cuDeviceGet(self, handle: Any, number: int) -> None:
        handle._obj.value = number

    def _cuDeviceGetName(self, name: Any, size: int, number: int) -> None:
        name.value = f"Fake {number}".encode()

    def _cuDeviceGetUuid(self, uuid: Any, number: int) -> None:
        uuid.raw = bytes([number + 1]) * 16

    def _cuDeviceGetAttribute(self, value: Any, attribute: int, number: int) -> None:
        value._obj.value = self.architectures[number][attribute - 75]

    def _cuDriverGetVersion(self, value: Any) -> None:
        value._obj.value = 13000

    def _cuMemGetInfo(self, free: Any, total: Any) -> None:
        free._obj.value = total._obj.value = self.free_bytes

    # -- memory --------------------------------------------------------------------------------

    def _cuMemAlloc(self, address: Any, size: int) -> int:
        if size > self.free_bytes:
            return OUT_OF_MEMORY
        self.free_bytes -= size
        raw = ctypes.create_string_buffer(size)
        address._obj.value = ctypes.addressof(raw)
        self.memory[address._obj.value] = raw
        return 0

    def _cuMemFree(self, address: int) -> None:
        self.free_bytes += len(self.memory.pop(address))

    def _cuMemAllocHost(self, address: Any, size: int) -> None:
        raw = ctypes.create_string_buffer(size)
        address._obj.value = ctypes.addressof(raw)
        self.memory[address._obj.value] = raw

    def _cuMemFreeHost(self, address: int) -> None:
        del self.memory[address]

    def _copy(self, target: int, source: int, size: int, stream: Any) -> None:
        self.do(lambda: ctypes.memmove(target, source, size) and None)

    _cuMemcpyHtoDAsync = _cuMemcpyDtoHAsync = _cuMemcpyDtoDAsync = _copy

    def _cuMemsetD32Async(self, target: int, word: int, count: int, stream: Any) -> None:
        self.do(
            lambda: ctypes.memmove(target, word.to_bytes(4, "little") * count, 4 * count) and None
        )

    # -- kernels and graphs --------------------------------------------------------------------

    def _cuModuleLoadData(self, module: Any, code: bytes) -> None:
        self.modules += 1
        module._obj.value = self.modules

    def _cuLaunchKernel(self, function: Any, x: int, y: int, z: int, *rest: Any) -> None:
        threads, given = rest[0], rest[5]
        values = [ctypes.c_uint64.from_address(place).value for place in given if place is not None]
        self.do(lambda: self.launches.append(((x, y, z), threads, values)))

    def _cuStreamBeginCapture(self, stream: Any, mode: int) -> None:
        self.capture = []

    def _cuStreamEndCapture(self, stream: Any, graph: Any) -> None:
        self.graphs.append(self.capture or [])
        self.capture = None
        graph._obj.value = len(self.graphs)

    def _cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: int) -> None:
        made._obj.value = graph.value

    def _cuGraphLaunch(self, graph: Any, stream: Any) -> None:
        for work in self.graphs[graph.value - 1]:
            work()


class FakeBlas:
    """Products of float32 as cuBLAS defines them, column by column."""

    def __init__(self, card: FakeCuda) -> None:
        self._card = card
        self.calls: list[tuple[int, ...]] = []
        """Of each product: rows, columns, inner terms, how its operands lie, what it adds in."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *given: 0

    def cublasGemmStridedBatchedEx(self, handle: Any, *given: Any) -> int:
        self._card.do(lambda: self._multiply(*given))
        return 0

    def _multiply(
        self, turn_a: int, turn_b: int, m: int, n: int, k: int, alpha: int,
        a: int, kind: int, lda: int, step_a: int, b: int, _: int, ldb: int, step_b: int,
        beta: int, c: int, __: int, ldc: int, step_c: int, batch: int, compute: int, ___: int,
    ) -> None:  # fmt: skip
        self.calls.append((m, n, k, kind, compute))
        keep = ctypes.c_float.from_address(beta).value
        for number in range(batch):
            left = _columns(a + 4 * number * step_a, lda, k if not turn_a else m)
            right = _columns(b + 4 * number * step_b, ldb, n if not turn_b else k)
            left = left[:k, :m] if turn_a else left[:m, :k].T
            right = right[:n, :k].T if turn_b else right[:k, :n]
            out = _columns(c + 4 * number * step_c, ldc, n)
            before = out[:m] * np.float32(keep) if keep else 0
            out[:m] = left.T @ right + before


def _columns(address: int, length: int, count: int) -> Any:
    raw = (ctypes.c_float * (length * count)).from_address(address)
    return np.frombuffer(memoryview(raw), np.float32).reshape(count, length).T


def fake_machine(cuda: FakeCuda | None = None) -> tuple[Machine, FakeCuda, FakeBlas]:
    """A machine over them; the compiler gives back the source."""
    card = cuda or FakeCuda()
    blas = FakeBlas(card)

    def compile(source: Source, architecture: int) -> bytes:
        return source.text.encode()

    return Machine(library=card, blas=blas, compile=compile), card, blas
