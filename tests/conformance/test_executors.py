"""Both executors keep one promise: leased, then finished, failed or cancelled, each said.

A job is given to an executor inside a running node; who computes is the test's (an engine in this
process, or a device over TLS).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.lease import Abandon
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.executors.base import ExecutorEvent
from server_stub.node.work import Compute
from tests.helpers.lab import Lab, died, gate, grid_settings, row_sums, until
from tests.helpers.node import LabNode

__all__: list[str] = []


class Party:
    """A node, one executor of it, and whoever computes there."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name
        self.seen: list[ExecutorEvent] = []
        self.executor = lab.node.node.executors[name]
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._reader = asyncio.run_coroutine_threadsafe(self._read(), lab.node.loop)
        lab.node.workers.hold = lab.node.call(gate())

    async def _read(self) -> None:
        async for event in self.executor.events():
            self.seen.append(event)

    def submit(self, tasks: int = 1) -> JobInfo:
        values = np.ones((tasks * 3, 5), np.float32)
        array = self.lab.file(values, "v.npy")
        return self.lab.submit(
            row_sums(values.shape), array, executor=self.name, force=True,
            constraints=Constraints(sandbox="none"),
        )  # fmt: skip

    def compute(self, *, fails: bool = False) -> None:
        """Lets whoever computes begin."""
        if self.name == "local":
            if fails:
                self.lab.node.workers.meddle = lambda item: (
                    died() if isinstance(item, Compute) else None
                )
            hold = self.lab.node.workers.hold
            assert hold is not None
            self.lab.node.loop.call_soon_threadsafe(hold.set)
            return
        self._thread = threading.Thread(target=self._device, args=(fails,))
        self._thread.start()

    def lease_only(self) -> None:
        """Takes a lease and does nothing with it."""
        if self.name == "grid":
            with self.lab.device() as device:
                until(lambda: bool(device.exchange(want=1).leases))

    def _device(self, fails: bool) -> None:
        with self.lab.device() as device:
            while not self._stop.is_set():
                if fails:
                    for lease in device.exchange(want=1).leases:
                        device.exchange(abandons=(Abandon(lease.lease, "engine_failed"),))
                else:
                    device.work()
                time.sleep(0.01)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.seen]

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._reader.cancel()


@pytest.fixture(params=["local", "grid"])
def party(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Party]:
    with LabNode(tmp_path, **grid_settings()) as node:
        lab = Lab(node, tmp_path)
        made = Party(lab, request.param)
        yield made
        made.close()
        lab.client.close()


def test_a_job_is_computed_and_each_lease_is_told(party: Party) -> None:
    job = party.submit()
    party.compute()
    assert party.lab.wait(job).state == "done"
    until(lambda: "finished" in party.kinds())
    leased = [event.lease for event in party.seen if event.kind == "leased"]
    finished = [event.lease for event in party.seen if event.kind == "finished"]
    assert finished
    assert set(finished) <= set(leased)
    assert party.kinds().index("leased") < party.kinds().index("finished")


def test_what_fails_is_told_and_tried_again(party: Party) -> None:
    party.submit()
    party.compute(fails=True)
    until(lambda: "failed" in party.kinds())
    assert "finished" not in party.kinds()


def test_cancel_is_acknowledged_and_nothing_of_it_is_used(party: Party) -> None:
    job = party.submit()
    party.lease_only()
    until(lambda: "leased" in party.kinds())
    ended = party.lab.client.call("POST", f"/v1/jobs/{job.job}/cancel", JobInfo)
    assert ended.state == "cancelled"
    until(lambda: "cancelled" in party.kinds())
    party.compute()
    time.sleep(0.1)
    assert party.lab.job(job.job).used == 0


def test_capabilities_say_what_a_plan_must_respect(party: Party) -> None:
    fleet = party.lab.node.call(party.executor.capabilities())
    assert fleet.memory_bytes >= fleet.slot_bytes > 0
    assert fleet.engines == (1 if party.name == "local" else 0)
    if party.name == "grid":
        with party.lab.device() as device:
            device.exchange()
        fleet = party.lab.node.call(party.executor.capabilities())
        assert fleet.engines == 1
        assert fleet.flops_per_s == 1e12
