"""A Ray cluster for tests without Ray: hands of machines in this process, over the same words.

Owns: `Hands`, a `Link` whose machines compute with the test's workers. They come and go as the test
says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from gpugoblin.errors import NodeError
from gpugoblin.graph.dtypes import EVERY_DTYPE
from server_stub.node.executors.ray_words import Do, Seat, decode_order, encode
from server_stub.node.work import Reply, Work
from server_stub.node.workers.frames import LENGTH
from server_stub.node.workrunner import Pool

__all__ = ["Hands"]

MEMORY_BYTES = 64 * 2**20
SLOT_BYTES = 16 * 2**20


class Hands:
    """A `Link` to machines that compute with `pool`. `add` and `lose` machines in its loop."""

    def __init__(self, *machines: str) -> None:
        self.pool: Pool | None = None
        self.done: list[tuple[str, str, str]] = []
        self.stopped = False
        self.trouble: NodeError | None = None
        self._seats: dict[str, Seat] = {}
        self.known: dict[str, Seat] = {}
        self._running: dict[str, set[asyncio.Task[Reply]]] = {}
        self._changed: Callable[[], None] = lambda: None
        for machine in machines:
            self._join(machine)

    def _join(self, machine: str, *marks: str) -> None:
        seat = Seat(machine, f"host-{machine}", 1, MEMORY_BYTES, SLOT_BYTES, EVERY_DTYPE.mask(),
                    True, marks)  # fmt: skip
        self._seats[machine] = self.known[machine] = seat

    @property
    def seats(self) -> Mapping[str, Seat]:
        return self._seats

    async def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        changed()

    async def add(self, machine: str, *marks: str) -> None:
        """A machine joins the cluster."""
        self._join(machine, *marks)
        self.trouble = None
        self._changed()

    async def lose(self, machine: str, trouble: NodeError | None = None) -> int:
        """A machine is gone, with what it had; how many items that were."""
        del self._seats[machine]
        self.trouble = trouble
        lost = self._running.pop(machine, set())
        for task in lost:
            task.cancel()
        self._changed()
        return len(lost)

    async def run(self, seat: str, work: Work) -> Reply:
        if seat not in self._seats:
            raise NodeError("ray_worker_lost", reason="the machine is not there any more")
        order = decode_order(encode(Do(seat, work))[LENGTH.size :])
        assert isinstance(order, Do)
        assert self.pool is not None
        task = asyncio.ensure_future(self.pool.run(order.work))
        running = self._running.setdefault(seat, set())
        running.add(task)
        try:
            reply = await task
        except asyncio.CancelledError:
            if task.cancelled() and seat not in self._seats:
                raise NodeError("ray_worker_lost", reason="the test took it away") from None
            task.cancel()
            raise
        finally:
            running.discard(task)
        self.done.append((seat, type(order.work).__name__, order.work.work.split(".")[1]))
        return reply

    async def stop(self) -> None:
        self.stopped = True
