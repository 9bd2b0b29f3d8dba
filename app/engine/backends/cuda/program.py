"""A compiled graph on an NVIDIA card: captured graphs, cut into segments, replayed.

Owns: recording, segments, and one run. Must not: compile.

Segments are as long as the card was seen to need `SEGMENT_S` for; at most two are queued, so a
cancelled task ends within two of them. Recording again needs no compilation. All work is in one
stream, in order, so there is nothing to wait for between steps.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from app.engine.backends.card.kernel import MAX_PUSHED
from app.engine.backends.card.stages import Stage
from app.engine.backends.card.steps import ERROR_SLOT_BYTES, Layout, first_error
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from app.engine.backends.cuda.recording import Commands
from app.engine.context import Context
from gpugoblin.catalog.spec import Array, TensorSpec

__all__ = ["CudaProgram"]

SEGMENT_S: Final = 0.1
QUEUED: Final = 2

Places = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class CudaProgram:
    """A program for tensors of exactly the specs of its layout; `position` is the node that an
    error belongs to."""

    machine: Machine
    layout: Layout
    arena_bytes: int = 0
    position: int = -1
    _block: int | None = None
    _rate: float = 0.0
    _segments: list[tuple[Commands, float]] = field(default_factory=list)
    _kernels: dict[bytes, str] = field(default_factory=dict)
    _tables: int | None = None

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        return self.layout.input_specs

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        return self.layout.output_specs

    @property
    def private_bytes(self) -> int:
        """All memory of the card that a run takes."""
        return self.layout.size_bytes + self._table_bytes()

    def prepare(self) -> None:
        """Takes the memory of a run.

        Raises:
            MemoryError: the card has not enough of it now.
        """
        self.machine.hold(self.layout.size_bytes)

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], arena: Array, context: Context
    ) -> None:
        """Fills `outputs`; `arena` is not used.

        Raises:
            KernelError, Cancelled: `position` names the node.
        """
        self.position = -1
        block = self._ready()
        if self.machine.tenant is not self:  # another program's tensors lie over the constants
            self.machine.tenant = None
            self.machine.upload(block, self.layout.constants)
            self.machine.tenant = self
        self.machine.upload(block, list(zip(self.layout.inputs, inputs, strict=True)))
        self._replay(context)
        self._require_no_error(block)
        self.machine.download(block, list(zip(self.layout.outputs, outputs, strict=True)))
        self.layout.finish(outputs)

    def replay_s(self, repeats: int) -> float:
        """Seconds of one replay on whatever the block holds, without moving tensors: for
        measuring. The mean of `repeats`, queued one behind the other."""
        self._ready()
        self.machine.tenant = None  # what it writes is nobody's
        self.machine.device.synchronize()
        began_s = time.perf_counter()
        for _ in range(repeats):
            for commands, _ in self._segments:
                commands.launch()
        self.machine.device.synchronize()
        return (time.perf_counter() - began_s) / repeats

    def queue_s(self, repeats: int) -> float:
        """Seconds of the host for queueing one replay: for measuring."""
        self._ready()
        self.machine.device.synchronize()
        began_s = time.perf_counter()
        for _ in range(repeats):
            for commands, _ in self._segments:
                commands.launch()
        took_s = (time.perf_counter() - began_s) / repeats
        self.machine.device.synchronize()
        return took_s

    # -- one run -------------------------------------------------------------------------------

    def _ready(self) -> int:
        block = self.machine.hold(self.layout.size_bytes)
        if block != self._block or not 0.5 < self.machine.weight_per_s / self._rate < 2.0:
            self._record(block)
        return block

    def _replay(self, context: Context) -> None:
        pending: deque[tuple[Commands, float]] = deque()
        total = sum(weight for _, weight in self._segments) or 1.0
        try:
            for commands, weight in self._segments:
                context.begin_step(0.0)
                if len(pending) == QUEUED:
                    self._await(*pending.popleft(), total, context)
                commands.launch()
                commands.event.record()
                pending.append((commands, weight))
            while pending:
                self._await(*pending.popleft(), total, context)
        finally:
            for commands, _ in pending:
                commands.event.wait()

    def _await(self, commands: Commands, weight: float, total: float, context: Context) -> None:
        began_s = time.monotonic()
        commands.event.wait()
        took_s = time.monotonic() - began_s
        if took_s > SEGMENT_S / 4:
            self.machine.weight_per_s = weight / took_s
        context.begin_step(weight / total)
        context.blocks(1, lambda block: None)

    def _require_no_error(self, block: int) -> None:
        place, count = self.layout.errors
        if not count:
            return
        found = np.zeros((count, 2), np.int64)
        self.machine.download(block, [(place, found)])
        wrong = first_error(self.layout.steps, found)
        if wrong is not None:
            self.position, error = wrong
            raise error

    # -- recording -----------------------------------------------------------------------------

    def _record(self, block: int) -> None:
        self._forget()
        for step in self.layout.steps:
            for stage, _ in step.stages:
                if stage.call is None and stage.words not in self._kernels:
                    self._kernels[stage.words] = self.machine.claim(stage.words)
        self._block, self._rate = block, self.machine.weight_per_s
        tables = self._tabled(block)
        most = self._rate * SEGMENT_S
        weight = 0.0
        commands = Commands(self.machine)
        try:
            place, count = self.layout.errors
            commands.fill(block + place, ERROR_SLOT_BYTES * count)
            for number, step in enumerate(self.layout.steps):
                if weight + step.weight > most and weight:
                    commands.end()
                    self._segments.append((commands, weight))
                    commands, weight = Commands(self.machine), 0.0
                for part, (stage, places) in enumerate(step.stages):
                    self._queue(commands, stage, places, block, tables.get((number, part), 0))
                weight += step.weight
            for source, target, size in self.layout.copies:
                commands.copy(block + source, block + target, size)
            commands.end()
        except BaseException:
            commands.abandon()
            self._forget()
            raise
        self._segments.append((commands, weight))

    def _queue(
        self, commands: Commands, stage: Stage, places: Places, block: int, table: int
    ) -> None:
        addresses = [table] if table else [block + start for start, _ in places]
        if stage.call is None:
            kernel = self.machine.kernel(self._kernels[stage.words])
            commands.dispatch(kernel, stage.groups, addresses)
        elif isinstance(stage.call, Gemm):
            commands.product(stage.call, *addresses)
        else:
            raise TypeError(f"nothing calls {type(stage.call).__name__}")

    def _wide(self) -> list[tuple[tuple[int, int], Places]]:
        """The stages whose addresses are too many to be parameters, by step and place in it."""
        return [
            ((number, part), places)
            for number, step in enumerate(self.layout.steps)
            for part, (_, places) in enumerate(step.stages)
            if len(places) > MAX_PUSHED
        ]

    def _table_bytes(self) -> int:
        return sum(8 * len(places) for _, places in self._wide())

    def _tabled(self, block: int) -> dict[tuple[int, int], int]:
        """Brings the tables of addresses to the card; where each begins."""
        wide = self._wide()
        if not wide:
            return {}
        device = self.machine.device
        self._tables = device.allocate(self._table_bytes())
        found: dict[tuple[int, int], int] = {}
        content = np.array([block + start for _, places in wide for start, _ in places], np.uint64)
        self.machine.upload(self._tables, [(0, content)])
        device.synchronize()
        at = self._tables
        for key, places in wide:
            found[key] = at
            at += 8 * len(places)
        return found

    def release(self) -> None:
        """Gives back what was recorded and compiled; the card must be done with it."""
        self.machine.device.enter()
        self._forget()
        if self.machine.tenant is self:
            self.machine.tenant = None
        self.machine.drop(list(self._kernels.values()))
        self._kernels.clear()

    def _forget(self) -> None:
        if self._segments:
            self.machine.device.synchronize()
        for commands, _ in self._segments:
            commands.close()
        self._segments.clear()
        if self._tables is not None:
            self.machine.device.free(self._tables)
            self._tables = None
        self._block = None
