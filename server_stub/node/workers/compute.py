"""Computing items in a pipeline: load, compute, check and write, each in a thread of its own.

Owns: `Compute` and `Recompute`, from the item to its answer. Must not: verify anything by itself:
`gpugoblin.verify` decides; trust what lies in the engine's outputs: it is copied before it is
judged, and the very copy that was judged is written.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from app.host.arena import Slot
from app.host.spec import EngineTask
from gpugoblin.blobs.chunk import CHUNK_BYTES
from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import GoblinError, VerifyError
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode
from gpugoblin.units import MIB
from gpugoblin.verify.forms import ProductForm, product_form
from gpugoblin.verify.product import row_energy
from server_stub.node.work import Compute, Input, Recompute, RegionInput, Reply
from server_stub.node.workers.engine_room import EngineRoom, Outcome, RoomConfig
from server_stub.node.workers.failures import failure
from server_stub.node.workers.finish import Finisher, Job
from server_stub.node.workers.residents import Resident, Residents, Stopped
from server_stub.node.workers.streams import InputStream, key_of, open_input, read_hashed

__all__ = ["ComputeLine"]

_AHEAD_BYTES: Final = 32 * MIB
_ADVISED: Final = 8
_SLOWEST_FLOPS_PER_S: Final = 2e8
_SLOWEST_BYTES_PER_S: Final = 2e7

Item = Compute | Recompute


@lru_cache(maxsize=64)
def parsed(data: bytes) -> tuple[Graph, ProductForm | None]:
    """A task's graph and its form; plans use few graphs for many tasks."""
    graph = decode(data)
    return graph, product_form(graph)


@dataclass(slots=True)
class _Loaded:
    """What an item holds so far."""

    residents: list[Resident] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    begun: bool = False


class ComputeLine:
    """The pipeline. `answer` is called from its threads, once an item.

    Args:
        begin: called with an item's id when it is taken up.
        readers: threads that read and hash one large input together.
    """

    def __init__(
        self,
        config: RoomConfig,
        store: BlobStore,
        answer: Callable[[Reply], None],
        readers: int = 2,
        begin: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._answer = answer
        self._begin = begin
        self._store = store
        self._room = EngineRoom(config)
        self._residents = Residents(
            self._room.inputs, self._room.outputs, self._room.lock, config.cache_bytes
        )
        self._finisher = Finisher(self._residents, store)
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="read")
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._advised: deque[str] = deque(maxlen=_ADVISED)
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Job, Outcome] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._load_all, name="load", daemon=True),
            threading.Thread(target=self._finish_all, name="finish", daemon=True),
        ]

    def start(self) -> None:
        self._room.start()
        for thread in self._threads:
            thread.start()

    def put(self, item: Item) -> None:
        """Queues an item, and has its large inputs read ahead by the system."""
        for source in item.inputs:
            if isinstance(source, RegionInput):
                self._ahead.submit(self._advise, source)
        self._items.put(item)

    def close(self) -> None:
        """Ends the engine and all threads. Items under way get no answer."""
        self._residents.stop()
        self._items.put(None)
        self._threads[0].join()
        self._room.close()
        self._ended.put(None)
        self._threads[1].join()
        self._readers.shutdown()
        self._ahead.shutdown(cancel_futures=True)

    def _advise(self, source: RegionInput) -> None:
        """In the one thread of `_ahead`."""
        key = key_of(source)
        if key in self._advised or self._residents.holds(key):
            return
        with suppress(GoblinError, OSError):  # only a hint; reading says what is wrong
            stream = open_input(source, self._store)
            try:
                if stream.nbytes >= _AHEAD_BYTES:
                    self._advised.append(key)
                    stream.advise()
            finally:
                stream.close()

    # -- loading ----------------------------------------------------------------------------

    def _load_all(self) -> None:
        while (item := self._items.get()) is not None:
            self._begin(item.work)
            loaded = _Loaded()
            try:
                self._load(item, loaded)
            except Stopped:
                return
            except Exception as error:  # the edge of a thread: the item's answer says it
                self._residents.end(loaded.residents, loaded.slots, begun=loaded.begun)
                self._answer(failure(item.work, error))

    def _load(self, item: Item, loaded: _Loaded) -> None:
        graph, form = parsed(item.graph)
        specs = graph.output_specs()
        if len(item.inputs) != len(graph.inputs) or len(item.outputs) != len(specs):
            raise VerifyError(
                "result_shape",
                output="count",
                found=len(item.outputs),
                expected=len(specs),
            )
        self._room.require(
            sum(spec.nbytes for spec in graph.inputs), sum(spec.nbytes for spec in specs)
        )
        places: dict[int, Resident] = {}
        # Small ones first: a panel waits for the tasks of the panel before it.
        for number in sorted(range(len(graph.inputs)), key=lambda at: graph.inputs[at].nbytes):
            source = item.inputs[number]
            left = form is not None and number == form.left
            resident = self._acquire(source, graph.inputs[number], form if left else None)
            loaded.residents.append(resident)
            places[number] = resident
        for spec in specs:
            loaded.slots.append(self._residents.output(spec.nbytes))
        inputs = tuple(places[number] for number in range(len(graph.inputs)))
        job = Job(item, graph, form, inputs, tuple(loaded.slots))
        task = EngineTask(
            graph=item.graph,
            inputs=tuple(resident.slot for resident in inputs),
            outputs=job.slots,
            predicted_s=_predicted_s(item, graph),
            numeric_class="exact" if item.numeric_class == "exact" else "float32",
        )
        self._residents.begin()
        loaded.begun = True
        self._room.submit(task, lambda outcome: self._ended.put((job, outcome)))

    def _acquire(self, source: Input, spec: TensorSpec, left_of: ProductForm | None) -> Resident:
        stream = open_input(source, self._store)
        try:
            if (stream.dtype, stream.shape) != (spec.dtype, spec.shape):
                found = f"{stream.dtype}{list(stream.shape)}"
                raise VerifyError("result_shape", output="input", found=found, expected=str(spec))
            return self._residents.acquire(
                key_of(source),
                stream.nbytes,
                lambda resident: self._read(stream, resident, left_of),
            )
        finally:
            stream.close()

    def _read(self, stream: InputStream, resident: Resident, left_of: ProductForm | None) -> None:
        with self._room.lock:
            target = self._room.inputs.view(resident.slot)
        rows: Array | None = None
        if left_of is not None and _rows_are_whole(left_of):
            rows = np.frombuffer(target, DTYPES[left_of.dtype])
            rows = rows.reshape(left_of.rows, left_of.inner)
        energy = None if rows is None else np.zeros(rows.shape[0])
        row_bytes = 0 if rows is None else rows.shape[1] * rows.itemsize

        def sum_rows(start: int, stop: int) -> None:
            """Rows that end in this chunk, while it is in the cache."""
            if rows is None or energy is None:
                return
            first, last = -(-start // row_bytes), stop // row_bytes
            if first < last:
                energy[first:last] = row_energy(rows[first:last])

        resident.blob = read_hashed(stream, target, sum_rows, self._readers)
        if rows is not None and energy is not None:
            for border in range(CHUNK_BYTES, stream.nbytes, CHUNK_BYTES):
                if border % row_bytes:
                    at = border // row_bytes
                    energy[at : at + 1] = row_energy(rows[at : at + 1])
        resident.energy = energy

    # -- finishing --------------------------------------------------------------------------

    def _finish_all(self) -> None:
        while (ended := self._ended.get()) is not None:
            job, outcome = ended
            try:
                if outcome.error is not None:
                    raise outcome.error
                reply = self._finisher.finish(job, outcome)
            except Exception as error:  # the edge of a thread: the item's answer says it
                reply = failure(job.item.work, error)
            finally:
                self._residents.end(job.inputs, job.slots, begun=True)
            self._answer(reply)


def _rows_are_whole(form: ProductForm) -> bool:
    """Whether the left operand's bytes are its rows, one after the other."""
    plain = DTYPES[form.dtype].kind == "f" and form.batch_count == 1 and not form.transpose_left
    return plain and form.inner > 0 and form.rows > 0


def _predicted_s(item: Item, graph: Graph) -> float:
    """Generous: this only ends an engine that hangs."""
    moved = sum(spec.nbytes for spec in graph.specs())
    return 5.0 + item.flops / _SLOWEST_FLOPS_PER_S + moved / _SLOWEST_BYTES_PER_S
