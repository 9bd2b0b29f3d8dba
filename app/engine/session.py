"""One engine's conversation with its parent.

Owns: the reading loop, the queue of tasks, the one thread that runs them, and every answer. Must
not: use sockets (the channel is read and written by `os.read` and `os.write`, one datagram each),
or trust a place before it was checked against the arena and the graph.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast, get_args

import numpy as np

from app.engine import identity
from app.engine.backends import backend_named
from app.engine.backends.spec import Executable, KernelKeeper
from app.engine.context import Cancelled, Context, KernelError
from app.engine.dialogue import FromParent, Rate
from app.engine.pool import Pool
from app.engine.protocol import (
    AT_ONCE,
    FRAME_BYTES,
    LOG_PER_S,
    MOST_KERNELS,
    PROGRESS_PER_S,
    Cancel,
    Done,
    Dtype,
    Export,
    Exported,
    Failed,
    FailureCode,
    Log,
    Lost,
    Message,
    NumericClass,
    Ping,
    Place,
    Pong,
    Prepare,
    Prepared,
    Progress,
    Ready,
    RefusalCode,
    Refused,
    Run,
    decode,
    encode,
    overhead_bytes,
)
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import EngineError, GoblinError, GraphError
from gpugoblin.graph.serialize import decode as decode_graph

__all__ = ["Arenas", "Session"]

GRAPH_BYTES: Final = 1024 * 1024
PROGRAMS_KEPT: Final = 16
PROTOCOL_ERROR: Final = 76  # sysexits: remote error in protocol
CARD_LOST: Final = 75  # sysexits: temporary failure, try again


def _sorted_classes(classes: frozenset[str]) -> tuple[NumericClass, ...]:
    return tuple(one for one in get_args(NumericClass) if one in classes)


def _names(dtypes: frozenset[str]) -> tuple[Dtype, ...]:
    return cast(tuple[Dtype, ...], tuple(sorted(dtypes)))


@dataclass(frozen=True, slots=True)
class Arenas:
    """The two arenas as bytes: `inputs` read-only, `outputs` shared and writable."""

    inputs: Array
    outputs: Array

    @classmethod
    def map(cls, input_fd: int, input_bytes: int, output_fd: int, output_bytes: int) -> Arenas:
        """Maps both once and closes the descriptors."""
        readable = mmap.mmap(input_fd, input_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        both = mmap.PROT_READ | mmap.PROT_WRITE
        writable = mmap.mmap(output_fd, output_bytes, mmap.MAP_SHARED, both)
        os.close(input_fd)
        os.close(output_fd)
        return cls(np.frombuffer(readable, np.uint8), np.frombuffer(writable, np.uint8))


class _Refusal(Exception):
    """A task that is not begun."""

    def __init__(self, code: RefusalCode, detail: str = "none", needed_bytes: int = 0) -> None:
        super().__init__(code)
        self.answer = Refused(code, needed_bytes, detail)


def _tensor(arena: Array, place: Place, spec: TensorSpec) -> Array:
    if place.nbytes != spec.nbytes or place.offset + place.nbytes > arena.size:
        raise _Refusal("slot_mismatch", "size")
    dtype = DTYPES[spec.dtype]
    if place.offset % dtype.itemsize:
        raise _Refusal("slot_mismatch", "alignment")
    bytes_ = arena[place.offset : place.offset + place.nbytes]
    return bytes_.view(dtype).reshape(spec.shape)


def _disjoint(places: tuple[Place, ...]) -> bool:
    ordered = sorted(places, key=lambda place: (place.offset, place.nbytes))
    return all(first.offset + first.nbytes <= second.offset for first, second in pairwise(ordered))


class Session:
    """Serves one parent over `control_fd` until it closes the channel.

    Args:
        memory_bytes: all private memory of this process; `overhead_bytes` of it are its own.
    """

    def __init__(
        self, control_fd: int, arenas: Arenas, threads: int, memory_bytes: int, backend: str
    ) -> None:
        self._control_fd = control_fd
        self._arenas = arenas
        self._memory_bytes = max(0, memory_bytes - overhead_bytes(threads, backend))
        self._backend = backend_named(backend)
        self._talk = FromParent()
        self._send_lock = threading.Lock()
        self._sequence = 0
        self._logs = Rate(LOG_PER_S, LOG_PER_S)
        self._progress_due_s = 0.0
        self._cancelled: set[int] = set()
        self._programs: dict[bytes, Executable] = {}
        self._private = np.empty(0, np.uint8)
        np.seterr(all="ignore")
        self._pool = Pool(threads)
        self._queue: queue.SimpleQueue[tuple[int, Run]] = queue.SimpleQueue()
        self._runner = threading.Thread(target=self._run_tasks, name="runner", daemon=True)
        self._runner.start()

    # -- sending ----------------------------------------------------------------------------

    def _send(self, message: Message, task: int = 0) -> None:
        with self._send_lock:
            datagram = encode(message, self._sequence, task)
            self._sequence += 1
            try:
                os.write(self._control_fd, datagram)
            except OSError:
                os._exit(0)  # the parent is gone, and with it every reason to go on

    def _log(self, text: str) -> None:
        if self._logs.take(time.monotonic()):
            printable = "".join(sign if " " <= sign <= "~" else "?" for sign in text)
            self._send(Log(printable[:200]))

    def _report(self, task: int, fraction: float) -> None:
        """From any thread; a task shorter than the period reports nothing."""
        now_s = time.monotonic()
        with self._send_lock:
            due = now_s >= self._progress_due_s
            if due:
                self._progress_due_s = now_s + 1.0 / PROGRESS_PER_S
        if due:
            self._send(Progress(fraction), task)

    # -- receiving --------------------------------------------------------------------------

    def serve(self, walls: dict[str, bool | int | str]) -> int:
        """Says Ready, then listens. Returns the exit status."""
        dtypes = self._backend.dtypes
        self._send(
            Ready(
                build=identity.build_name(),
                driver=self._backend.driver(),
                backend=self._backend.name,
                catalog_hash=identity.catalog(),
                kernel_set=identity.kernel_set(self._backend.name),
                threads=self._pool.threads,
                walls=walls,
                dtypes=_names(dtypes.values),
                arithmetic=_names(dtypes.arithmetic),
                convolutions=_names(dtypes.convolutions),
                classes=_sorted_classes(self._backend.classes),
            )
        )
        while True:
            datagram = os.read(self._control_fd, FRAME_BYTES + 1)
            if not datagram:
                return 0
            try:
                frame = decode(datagram)
                self._talk.receive(frame)
            except EngineError as cause:
                os.write(2, f"{cause}\n".encode())
                return PROTOCOL_ERROR
            message = frame.message
            if isinstance(message, Run):
                self._queue.put((frame.task, message))
            elif isinstance(message, Cancel):
                if self._talk.queued(frame.task):
                    self._cancelled.add(frame.task)
            elif isinstance(message, Ping):
                self._send(Pong(message.token))
            elif isinstance(message, Prepare):
                self._send(Prepared(self._prepare(message)))
            elif isinstance(message, Export):
                self._send(Exported(self._export(message.place)))

    def _prepare(self, message: Prepare) -> bool:
        if not isinstance(self._backend, KernelKeeper):
            return False
        place, compiled = message.compiled, None
        if place is not None and place.offset + place.nbytes <= self._arenas.inputs.size:
            lying = self._arenas.inputs[place.offset : place.offset + place.nbytes]
            compiled = lying.tobytes()
        try:
            return self._backend.prepare(message.refused, message.alone, compiled)
        except GoblinError as error:  # the driver fails at what it has written: it starts cold
            self._log(str(error))
            return False

    def _export(self, place: Place) -> int:
        try:
            data = self._backend.export() if isinstance(self._backend, KernelKeeper) else b""
        except GoblinError as error:
            self._log(str(error))
            return 0
        if not data or len(data) > place.nbytes:
            return 0
        if place.offset + len(data) > self._arenas.outputs.size:
            return 0
        stop = place.offset + len(data)
        self._arenas.outputs[place.offset : stop] = np.frombuffer(data, np.uint8)
        return len(data)

    def _end_if_lost(self, error: GoblinError) -> None:
        """Without its card an engine is of no use: it says what ran, and ends."""
        if error.code != "card_lost":
            return
        running = self._backend.running() if isinstance(self._backend, KernelKeeper) else ()
        os.write(2, f"{error}\n".encode())
        self._send(Lost(tuple(running[:MOST_KERNELS])))
        os._exit(CARD_LOST)

    # -- running ----------------------------------------------------------------------------

    def _run_tasks(self) -> None:
        np.seterr(all="ignore")
        while True:
            task, run = self._queue.get()
            answer = self._answer(task, run)
            self._talk.answered(task)
            self._cancelled.discard(task)
            self._send(answer, task)

    def _answer(self, task: int, run: Run) -> Done | Refused | Failed:
        if task in self._cancelled:
            return Failed("cancelled")
        try:
            program = self._program(run)
            inputs, outputs = self._tensors(program, run)
            arena = self._memory(program)
            program.prepare()
        except _Refusal as refusal:
            return refusal.answer
        except MemoryError:
            return Refused("does_not_fit", self._memory_bytes)
        except EngineError as error:
            self._end_if_lost(error)
            return Failed("kernel_failed", detail=error.code)
        context = Context(
            self._pool,
            wanted=lambda: task not in self._cancelled,
            report=lambda fraction: self._report(task, fraction),
        )
        return self._compute(program, inputs, outputs, arena, context)

    def _compute(
        self,
        program: Executable,
        inputs: list[Array],
        outputs: list[Array],
        arena: Array,
        context: Context,
    ) -> Done | Failed:
        began_s = time.monotonic()
        self._progress_due_s = began_s + 1.0 / PROGRESS_PER_S
        code: FailureCode
        detail = "none"
        values: tuple[int, ...] = ()
        try:
            program.run(inputs, outputs, arena, context)
        except Cancelled:
            code = "cancelled"
        except KernelError as error:
            code, values = error.code, error.values
        except MemoryError:
            code = "out_of_memory"
        except Exception as error:  # the edge of the process: whatever it is, the engine lives on
            if isinstance(error, GoblinError):
                self._end_if_lost(error)
            code, detail = "kernel_failed", type(error).__name__
            if isinstance(error, GoblinError) and error.code == "card_memory":
                code = "out_of_memory"  # somebody else has it: the card is not broken
            self._log(f"{type(error).__name__} at node {program.position}: {error}")
        else:
            return Done(time.monotonic() - began_s, program.private_bytes)
        return Failed(code, program.position, detail, values)

    def _program(self, run: Run) -> Executable:
        # Whole numbers are exact everywhere; a backend refuses floats by itself.
        if run.numeric_class not in {*self._backend.classes, "exact"}:
            raise _Refusal("class_unsupported", run.numeric_class)
        encoded = run.graph
        if run.graph_place is not None:
            place = run.graph_place
            if place.nbytes > GRAPH_BYTES or place.offset + place.nbytes > self._arenas.inputs.size:
                raise _Refusal("slot_mismatch", "graph")
            encoded = self._arenas.inputs[place.offset : place.offset + place.nbytes].tobytes()
        key = run.numeric_class.encode() + encoded
        program = self._programs.pop(key, None)
        if program is None:
            try:
                program = self._backend.compile(decode_graph(encoded), run.numeric_class)
            except GraphError as cause:
                raise _Refusal("graph_malformed", cause.code) from cause
            except GoblinError as cause:
                self._end_if_lost(cause)
                if cause.code == "does_not_fit_at_once":
                    needed_bytes = int(str(cause.fields["needed_bytes"]))
                    raise _Refusal("does_not_fit", AT_ONCE, needed_bytes) from cause
                raise _Refusal("class_unsupported", cause.code) from cause
        self._programs[key] = program  # the latest is last, the oldest goes first
        if len(self._programs) > PROGRAMS_KEPT:
            self._programs.pop(next(iter(self._programs))).release()
        return program

    def _tensors(self, program: Executable, run: Run) -> tuple[list[Array], list[Array]]:
        if len(run.inputs) != len(program.input_specs):
            raise _Refusal("slot_mismatch", "inputs")
        if len(run.outputs) != len(program.output_specs):
            raise _Refusal("slot_mismatch", "outputs")
        if not _disjoint(run.outputs):
            raise _Refusal("slot_mismatch", "overlap")
        inputs = [
            _tensor(self._arenas.inputs, place, spec)
            for place, spec in zip(run.inputs, program.input_specs, strict=True)
        ]
        outputs = [
            _tensor(self._arenas.outputs, place, spec)
            for place, spec in zip(run.outputs, program.output_specs, strict=True)
        ]
        return inputs, outputs

    def _memory(self, program: Executable) -> Array:
        """The arena of a program, in a buffer that is kept for the next task."""
        if program.private_bytes > self._memory_bytes:
            raise _Refusal("does_not_fit", needed_bytes=program.private_bytes)
        if self._private.size < program.arena_bytes:
            self._private = np.empty(0, np.uint8)  # the old one goes before the new one comes
            self._private = _aligned_bytes(program.arena_bytes)
        return self._private[: program.arena_bytes]


def _aligned_bytes(nbytes: int, alignment: int = 64) -> Array:
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.__array_interface__["data"][0] % alignment
    return raw[start : start + nbytes]
