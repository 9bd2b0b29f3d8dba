"""What a program does on a card, captured once as a graph of CUDA and launched many times.

Owns: capturing, launching, freeing. Must not: know what a kernel computes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from app.engine.backends.cuda.loader import require
from app.engine.backends.cuda.machine import Event, Loaded, Machine
from app.engine.backends.cuda.product import Gemm

__all__ = ["Commands"]

_THREAD_LOCAL: Final = 1


class Commands:
    """Work that is captured from the moment this is made until `end`, then launched at will."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._library = machine.device.library
        self._stream = machine.device.stream
        self._graph: ctypes.c_void_p | None = None
        self._count = 0
        self.event = Event(machine.device)
        require(
            self._library.cuStreamBeginCapture_v2(self._stream, _THREAD_LOCAL),
            "beginning a capture",
        )

    def dispatch(
        self, kernel: Loaded, groups: tuple[int, int, int], addresses: Sequence[int]
    ) -> None:
        values = (ctypes.c_uint64 * max(1, len(addresses)))(*addresses)
        base = ctypes.addressof(values)
        places = [base + 8 * place for place in range(len(addresses))]
        given = (ctypes.c_void_p * max(1, len(addresses)))(*places)
        require(
            self._library.cuLaunchKernel(
                kernel.function, *groups, kernel.source.threads, 1, 1, 0, self._stream, given, None
            ),
            "launching a kernel",
        )
        self._count += 1

    def product(self, gemm: Gemm, left: int, right: int, out: int) -> None:
        self._machine.blas.run(gemm, left, right, out)
        self._count += 1

    def copy(self, source: int, target: int, size_bytes: int) -> None:
        if size_bytes:
            require(
                self._library.cuMemcpyDtoDAsync_v2(target, source, size_bytes, self._stream),
                "copying on the card",
            )
            self._count += 1

    def fill(self, target: int, size_bytes: int, word: int = 0) -> None:
        """Repeats a word of four bytes; place and size are multiples of four."""
        if size_bytes:
            require(
                self._library.cuMemsetD32Async(target, word, size_bytes // 4, self._stream),
                "filling memory",
            )
            self._count += 1

    def end(self) -> None:
        captured = ctypes.c_void_p()
        require(
            self._library.cuStreamEndCapture(self._stream, ctypes.byref(captured)),
            "ending a capture",
        )
        made = ctypes.c_void_p()
        try:
            require(
                self._library.cuGraphInstantiateWithFlags(ctypes.byref(made), captured, 0),
                "making a graph",
            )
        finally:
            self._library.cuGraphDestroy(captured)
        self._graph = made

    def abandon(self) -> None:
        """Ends a capture that failed."""
        captured = ctypes.c_void_p()
        self._library.cuStreamEndCapture(self._stream, ctypes.byref(captured))
        if captured.value:
            self._library.cuGraphDestroy(captured)
        self.close()

    def launch(self) -> None:
        """Queues it; the card may not be done before `event` is."""
        if self._count:
            require(self._library.cuGraphLaunch(self._graph, self._stream), "launching a graph")

    def close(self) -> None:
        """Frees the graph; the card must be done with it."""
        if self._graph is not None:
            self._library.cuGraphExecDestroy(self._graph)
            self._graph = None
        self.event.close()
