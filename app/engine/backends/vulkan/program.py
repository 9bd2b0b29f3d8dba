"""A compiled graph on a card: recorded dispatches, cut into segments, replayed.

Owns: recording, barriers, segments, and one run. Must not: compile.

Segments end at barriers and are as long as the card was seen to need `SEGMENT_S` for; at most two
are queued, so a cancelled task ends within two of them. Recording again needs no compilation.
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
from app.engine.backends.card.steps import ERROR_SLOT_BYTES, CardStep, Layout, first_error
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.memory import Block, Space
from app.engine.backends.vulkan.recording import Commands
from app.engine.context import Context
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import EngineError

__all__ = ["CardProgram"]

SEGMENT_S: Final = 0.1
QUEUED: Final = 2


@dataclass(slots=True)
class CardProgram:
    """A program for tensors of exactly the specs of its layout; `position` is the node that an
    error belongs to."""

    machine: Machine
    layout: Layout
    arena_bytes: int = 0
    position: int = -1
    _block: Space | None = None
    _rate: float = 0.0
    _segments: list[tuple[Commands, float]] = field(default_factory=list)
    _names: list[tuple[str, ...]] = field(default_factory=list)
    _kernels: dict[bytes, str] = field(default_factory=dict)
    _tables: Block | None = None

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        return self.layout.input_specs

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        return self.layout.output_specs

    @property
    def private_bytes(self) -> int:
        """All memory of the card that a run takes."""
        return self.layout.size_bytes

    def prepare(self) -> None:
        """Takes the memory of a run.

        Raises:
            MemoryError: the card has not enough of it now.
        """
        self.machine.hold(self.private_bytes)

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        arena: Array,
        context: Context,
    ) -> None:
        """Fills `outputs`; `arena` is not used.

        Raises:
            KernelError, Cancelled: `position` names the node.
        """
        self.position = -1
        block = self.machine.hold(self.private_bytes)
        if block is not self._block or not 0.5 < self.machine.weight_per_s / self._rate < 2.0:
            self._record(block)
        if self.machine.tenant is not self:  # another program's tensors lie over the constants
            self.machine.tenant = None
            self.machine.upload(block, self.layout.constants)
            self.machine.tenant = self
        self.machine.upload(block, list(zip(self.layout.inputs, inputs, strict=True)))
        self._replay(context)
        self._require_no_error(block)
        self.machine.download(block, list(zip(self.layout.outputs, outputs, strict=True)))
        self.layout.finish(outputs)
        self.machine.require_no_complaint()

    def replay_s(self, repeats: int) -> float:
        """Seconds of one replay on whatever the block holds, without moving tensors: for
        measuring. The mean of `repeats`, queued one behind the other."""
        block = self.machine.hold(self.private_bytes)
        if block is not self._block:
            self._record(block)
        self.machine.tenant = None  # what it writes is nobody's
        queue = self.machine.queue
        number = 0
        began_s = time.perf_counter()
        for _ in range(repeats):
            for commands, _ in self._segments:
                number = queue.submit(commands)
        self.machine.finish(number)
        return (time.perf_counter() - began_s) / repeats

    def queue_s(self, repeats: int) -> float:
        """Seconds of the host for queueing one replay: for measuring. What is queued at once must
        not be so much that the driver waits for the card."""
        self.replay_s(1)
        number = 0
        began_s = time.perf_counter()
        for _ in range(repeats):
            for commands, _ in self._segments:
                number = self.machine.queue.submit(commands)
        took_s = (time.perf_counter() - began_s) / repeats
        self.machine.finish(number)
        return took_s

    # -- one run -------------------------------------------------------------------------------

    def _replay(self, context: Context) -> None:
        queue = self.machine.queue
        pending: deque[tuple[int, float]] = deque()
        total = sum(weight for _, weight in self._segments) or 1.0
        # Where one of the kernels is suspected of losing the card, what runs must be told exactly.
        queued = 1 if self.machine.alone else QUEUED
        self.machine.in_flight.clear()
        try:
            for (commands, weight), names in zip(self._segments, self._names, strict=True):
                context.begin_step(0.0)
                if len(pending) == queued:
                    self._await(*pending.popleft(), total, context)
                number = queue.submit(commands)
                self.machine.in_flight[number] = names
                pending.append((number, weight))
            while pending:
                self._await(*pending.popleft(), total, context)
        except EngineError:  # the card is lost or broken: nothing more can be awaited
            raise
        except BaseException:
            for number, _ in pending:
                self.machine.finish(number)
            raise

    def _await(self, number: int, weight: float, total: float, context: Context) -> None:
        began_s = time.monotonic()
        while not self.machine.queue.wait(number):
            context.check()
        del self.machine.in_flight[number]
        took_s = time.monotonic() - began_s
        if took_s > SEGMENT_S / 4 and weight:
            self.machine.weight_per_s = weight / took_s
        context.begin_step(weight / total)
        context.blocks(1, lambda block: None)

    def _require_no_error(self, block: Space) -> None:
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

    def _record(self, block: Space) -> None:
        self._forget()
        for step in self.layout.steps:
            for stage, _ in step.stages:
                if stage.words not in self._kernels:
                    self._kernels[stage.words] = self.machine.claim(stage.words)
        self._block, self._rate = block, self.machine.weight_per_s
        tables = _Tables(self.machine, block, self.layout.steps)
        self._tables = tables.block
        most = self._rate * SEGMENT_S
        weight = 0.0
        commands = self._begin(block)
        hazards = _Hazards()
        names: list[str] = []

        def cut() -> None:
            nonlocal commands, weight, hazards, names
            commands.barrier()
            self._end(commands, weight, names)
            commands, weight, hazards, names = self._begin(None), 0.0, _Hazards(), []

        for step in self.layout.steps:
            if weight + step.weight > most and weight:
                cut()
            for stage, places in step.stages:
                key = self._kernels[stage.words]
                is_alone = key[:16] in self.machine.alone
                if is_alone and names:
                    cut()
                if hazards.meet(stage, places):
                    commands.barrier()
                pipeline = self.machine.pipeline(key)
                commands.dispatch(pipeline, stage.groups, tables.addresses(places))
                names.append(key[:16])
                if is_alone:
                    cut()
            weight += step.weight
        commands.barrier()
        for source, target, size in self.layout.copies:
            if not size:
                continue
            commands.copy(*block.find(source), *block.find(target), size)
        commands.barrier()
        self._end(commands, weight, names)

    def _begin(self, block: Space | None) -> Commands:
        commands = Commands(self.machine.device, self.machine.pipelines)
        place, count = self.layout.errors
        if block is not None and count:
            commands.fill(*block.find(place), ERROR_SLOT_BYTES * count)
            commands.barrier()
        return commands

    def _end(self, commands: Commands, weight: float, names: Sequence[str]) -> None:
        commands.end()
        self._segments.append((commands, weight))
        self._names.append(tuple(sorted(set(names))))

    def release(self) -> None:
        """Gives back what was recorded and compiled; the card must be done with it."""
        self._forget()
        if self.machine.tenant is self:
            self.machine.tenant = None
        self.machine.drop(list(self._kernels.values()))
        self._kernels.clear()

    def _forget(self) -> None:
        for commands, _ in self._segments:
            commands.close()
        self._segments.clear()
        self._names.clear()
        if self._tables is not None:
            self._tables.close()
            self._tables = None
        self._block = None


class _Hazards:
    """Which bytes the dispatches since the last barrier read and wrote."""

    def __init__(self) -> None:
        self._reads: list[tuple[int, int]] = []
        self._writes: list[tuple[int, int]] = []

    def meet(self, stage: Stage, places: tuple[tuple[int, int], ...]) -> bool:
        """Whether a barrier must come before this stage; remembers the stage."""
        cut = len(places) - stage.writes
        reads, writes = places[:cut], places[cut:]
        wait = any(
            _touch(one, other)
            for mine, theirs in (
                (reads, self._writes),
                (writes, self._writes),
                (writes, self._reads),
            )
            for one in mine
            for other in theirs
        )
        if wait:
            self._reads, self._writes = [], []
        self._reads.extend(reads)
        self._writes.extend(writes)
        return wait


def _touch(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


class _Tables:
    """The addresses of the stages that have too many to be pushed."""

    def __init__(self, machine: Machine, block: Space, steps: Sequence[CardStep]) -> None:
        self._space = block
        wide = [places for step in steps for _, places in step.stages if len(places) > MAX_PUSHED]
        self.block: Block | None = None
        self._filled = 0
        if wide:
            self.block = Block(machine.device, 8 * sum(map(len, wide)), visible=True)

    def addresses(self, places: Sequence[tuple[int, int]]) -> list[int]:
        found = [self._space.address(start) for start, _ in places]
        if len(found) <= MAX_PUSHED or self.block is None:
            return found
        start, stop = self._filled, self._filled + 8 * len(found)
        self.block.bytes[start:stop] = np.array(found, "<u8").view(np.uint8)
        self._filled = stop
        return [self.block.address + start]
