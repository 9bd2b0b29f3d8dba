"""An executor of a running node under test, and whoever computes for it.

Owns: `Party`. For `local` an engine in this process, for `grid` devices over TLS, for `ray` the
machines of `Hands`. All three can be told to begin, to fail, to join late and to vanish.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import numpy as np

from gpugoblin.errors import EngineError
from gpugoblin.wire.messages.job import ArrayInfo, JobInfo
from gpugoblin.wire.messages.lease import Abandon
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.executors.base import ExecutorEvent
from server_stub.node.work import Compute
from tests.helpers.hands import Hands
from tests.helpers.lab import Lab, died, gate, row_sums, until

__all__ = ["EXECUTORS", "Party", "Shifted", "settings_of"]

EXECUTORS = ("local", "grid", "ray")


def settings_of(name: str) -> dict[str, Any]:
    """What a node needs beyond the usual to have an executor."""
    return {"executor": "local, grid, ray", "ray_address": "test:1"} if name == "ray" else {}


class Shifted:
    """The machine's clock, which a test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def wall_s(self) -> float:
        return time.time() + self.ahead_s

    def monotonic_s(self) -> float:
        return time.monotonic() + self.ahead_s


class Party:
    """A node, one executor of it, and whoever computes there."""

    def __init__(self, lab: Lab, name: str, clock: Shifted) -> None:
        self.lab = lab
        self.name = name
        self.clock = clock
        self.seen: list[ExecutorEvent] = []
        self.executor = lab.node.node.executors[name]
        self.hands: Hands | None = lab.node.link
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._reader = asyncio.run_coroutine_threadsafe(self._read(), lab.node.loop)
        lab.node.workers.hold = lab.node.call(gate())

    async def _read(self) -> None:
        async for event in self.executor.events():
            self.seen.append(event)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.seen]

    def submit(self, tasks: int = 1) -> JobInfo:
        """A job of row sums, on this executor."""
        return self.give(row_sums((tasks * 3, 5)), self.lab.file(
            np.ones((tasks * 3, 5), np.float32), "v.npy"))  # fmt: skip

    def give(self, graph: bytes, *inputs: ArrayInfo, **fields: Any) -> JobInfo:
        """A job on this executor, whatever it gains."""
        return self.lab.submit(
            graph, *inputs, executor=self.name, force=True,
            constraints=Constraints(sandbox="none"), **fields,
        )  # fmt: skip

    def open(self) -> None:
        """Engines of the lab may compute from now on."""
        hold = self.lab.node.workers.hold
        self.lab.node.loop.call_soon_threadsafe(hold.set)

    def fail(self, error: EngineError | None = None, times: int = 1_000_000) -> None:
        """The next tasks fail, on the lab's own engines."""
        left = [times]

        def meddle(item: Any) -> EngineError | None:
            if isinstance(item, Compute) and left[0] > 0:
                left[0] -= 1
                return error or died()
            return None

        self.lab.node.workers.meddle = meddle

    def compute(self, *, fails: str = "") -> None:
        """Lets whoever computes begin; a device gives back everything with the cause `fails`."""
        if self.name == "grid":
            thread = threading.Thread(target=self._device, args=(fails,))
            self._threads.append(thread)
            thread.start()
            return
        if fails:
            self.fail()
        self.open()

    def join(self) -> None:
        """One more engine, where the executor can have one."""
        if self.hands is not None:
            self.lab.node.call(self.hands.add(f"machine-{time.monotonic_ns()}"))
        elif self.name == "grid":
            self.compute()

    def lease_only(self) -> None:
        """Somebody takes a lease and does nothing with it."""
        if self.name == "grid":
            with self.lab.device() as device:
                until(lambda: bool(device.exchange(want=1).leases))

    def lose_holder(self) -> None:
        """Whoever has the leases is gone without a word."""
        if self.hands is not None:
            (machine,) = self.hands.seats
            assert self.lab.node.call(self.hands.lose(machine)) >= 1
        elif self.name == "grid":
            self.clock.ahead_s = 120.0  # a device that says nothing loses its lease by the clock
        else:
            self.fail(times=1)  # a worker that dies answers with this
            self.open()

    def _device(self, fails: str) -> None:
        with self.lab.device(exp=int(self.clock.wall_s()) + 3000) as device:
            device.now_s = self.clock.wall_s
            while not self._stop.is_set():
                if fails:
                    for lease in device.exchange(want=1).leases:
                        device.exchange(abandons=(Abandon(lease.lease, fails),))
                else:
                    device.work()
                time.sleep(0.01)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._reader.cancel()
