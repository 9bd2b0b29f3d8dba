"""A lab node for tests: real doors, real database, real checks; computing is the interpreter.

Owns: `Workers`, a pool in this process, and `LabNode`, a running service in a directory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import uvloop

from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import GoblinError
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.serialize import decode
from gpugoblin.wire.transport import Endpoint, Transport
from server_stub.node import arrays as files
from server_stub.node import settings
from server_stub.node.node import Node
from server_stub.node.service import Service, open_state
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Checked,
    Compute,
    Computed,
    Recompute,
    RegionInput,
    Reply,
    Work,
)
from server_stub.node.workers.checks import CheckDesk

__all__ = ["LabNode", "Workers", "evaluate", "lab_settings"]

T = TypeVar("T")


async def _nothing() -> None:
    pass


# The library below uvloop opens one pipe for the whole process, at the first loop.
uvloop.run(_nothing())
Meddle = Callable[[Work], GoblinError | None]


def evaluate(
    graph: bytes, inputs: Sequence[Array], numeric_class: str = "float32"
) -> tuple[Array, ...]:
    """What an honest engine answers, C-order."""
    compute = interpret_exact if numeric_class == "exact" else interpret
    return tuple(np.ascontiguousarray(one) for one in compute(decode(graph), inputs))


class Workers:
    """The pool's interface, in this process. `meddle` may refuse an item; `done` counts kinds."""

    def __init__(self, blob_root: Path) -> None:
        self.store = BlobStore(blob_root, 0)
        self.desk = CheckDesk(self.store)
        self.done: list[str] = []
        self.meddle: Meddle = lambda item: None
        self.hold: asyncio.Event | None = None
        self.falsify = False
        self._doing = threading.Lock()

    async def run(self, work: Work) -> Reply:
        """Does one item in a thread."""
        if self.hold is not None and isinstance(work, Compute):
            await self.hold.wait()
        refused = self.meddle(work)
        if refused is not None:
            raise refused
        reply = await asyncio.to_thread(self._do, work)
        self.done.append(type(work).__name__)
        return reply

    def _do(self, work: Work) -> Reply:
        if isinstance(work, Compute):
            return self._compute(work)
        if isinstance(work, Recompute):
            return self._recompute(work)
        # One at a time, as in a real worker: Python 3.11 cannot parse in two threads.
        with self._doing:
            return self.desk.do(work)

    def _read(self, source: Any) -> Array:
        if isinstance(source, RegionInput):
            with self._doing:
                data = bytes(files.read_box(source.array, source.box))
            shape = tuple(b - a for a, b in zip(source.box.start, source.box.stop, strict=True))
            return np.frombuffer(data, DTYPES[source.array.dtype]).reshape(shape)
        assert isinstance(source, BlobInput)
        with self.store.open_read(source.blob) as reader:
            return np.frombuffer(reader.read(), DTYPES[source.dtype]).reshape(source.shape)

    def _place(self, array: Array, output: Any, keep: bool) -> str:
        data = array.tobytes()
        if not isinstance(output, BlobOutput) and not keep:
            with self._doing:
                files.write_box(output.array, output.box, data)
        return str(self.store.put(data))

    def _inputs(self, work: Compute | Recompute) -> list[Array]:
        return [self._read(source) for source in work.inputs]

    def _compute(self, work: Compute) -> Reply:
        results = evaluate(work.graph, self._inputs(work), work.numeric_class)
        product = work.verify == "product"
        wrong = product and self.falsify
        blobs = tuple(
            self._place(array, output, keep=not product)
            for array, output in zip(results, work.outputs, strict=True)
        )
        return Computed(
            work.work, ("",) * len(work.inputs), blobs, tuple(a.nbytes for a in results),
            product and not wrong, "product_mismatch" if wrong else "", "test-engine", "cpu",
            "0" * 64, "none", 0.01, 1000,
        )  # fmt: skip

    def _recompute(self, work: Recompute) -> Reply:
        own = evaluate(work.graph, self._inputs(work), work.numeric_class)
        theirs = [self._read(blob) for blob in work.committed]
        right = bool(theirs) and all(
            np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(own, theirs, strict=True)
        )
        chosen = theirs if right else list(own)
        names: tuple[str, ...] = ()
        if work.fold and (right or work.repair):
            names = tuple(
                self._place(array, output, keep=False)
                for array, output in zip(chosen, work.outputs, strict=True)
            )
        code = "" if right else "result_mismatch"
        return Checked(work.work, right, code, 0.0, 1.0, () if right else names, "validator")


def lab_settings(root: Path, **given: Any) -> settings.NodeSettings:
    """Settings of a small node under `root`."""
    return settings.parse({
        "state_dir": str(root / "state"), "engine_level": "none",
        "engine_memory_bytes": 64 * 2**20, "slot_bytes": 16 * 2**20, "grid_startup_s": 0.0,
        "reserve_bytes": 0, "device_hold_s": 0.0, **given,
    })  # fmt: skip


class LabNode:
    """A node that serves, in a thread with an event loop of its own. A context manager.

    Its state stays under `root`, so that the next one goes on from it.
    """

    def __init__(
        self, root: Path, *, workers: Any = None, clock: Any = None, link: Any = None, **given: Any
    ) -> None:
        self.settings = lab_settings(root, **given)
        self.workers = workers
        self.link = link
        self._clock = clock
        self._thread = threading.Thread(target=self._run, name="lab-node")
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._error: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop
        self.service: Service

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except BaseException as error:  # handed to the test's thread
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        state = open_state(self.settings)
        try:
            if self.workers is None:
                self.workers = Workers(self.settings.blob_root)
            if self.link is not None:
                self.link.pool = self.workers
            async with Service(state, self._clock, self.workers, self.link) as self.service:
                self._ready.set()
                await self._stop.wait()
        finally:
            state.close()

    @property
    def node(self) -> Node:
        return self.service.node

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the node's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30.0)

    def read(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of the node's database."""

        async def look() -> list[tuple[Any, ...]]:
            return await self.node.store.read(lambda tx: tx.rows(statement, parameters))

        return self.call(look())

    def transport(self) -> Transport:
        """A client on the Unix socket. Close it."""
        return Transport(Endpoint(f"unix:{self.settings.socket_path}"))
