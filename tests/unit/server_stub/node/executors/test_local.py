"""The lab's own engine is kept fed, and told to stop; see also the executors' conformance."""

from __future__ import annotations

import asyncio

from gpugoblin.errors import GoblinError, NodeError, StoreError
from server_stub.node.executors.base import Fleet
from server_stub.node.executors.local import LocalExecutor
from server_stub.node.state.dispatch import LocalLease
from server_stub.node.work import Computed, Fold, Reply, Work

__all__: list[str] = []

FLEET = Fleet(1, 1, 1, 1, 0.0, 0.0, 0)
FULL = {"path": "/x", "needed_bytes": 1, "free_bytes": 0}


class Host:
    """A node with `count` tasks."""

    def __init__(self, count: int, *answers: Exception | None) -> None:
        self.left = count
        self.answers = list(answers)
        self.at_once = self.most = 0
        self.done: list[int] = []
        self.failed: list[str] = []
        self.waited: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def lease_local(self, want: int) -> list[LocalLease]:
        count = min(want, self.left)
        first = self.left
        self.left -= count
        return [LocalLease(f"l{first - i}", first - i, first - i, "job") for i in range(count)]

    async def compute_item(self, lease: LocalLease) -> Work | None:
        return None if lease.task == 99 else Fold(f"w{lease.task}", (), ())

    async def run_work(self, item: Work) -> Reply:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            answer = self.answers.pop(0) if self.answers else None
            if answer is not None:
                raise answer
        finally:
            self.at_once -= 1
        return Computed(item.work, (), (), (), True, "", "e", "d", "k", "none", 0.1, 1)

    async def local_done(self, lease: LocalLease, reply: Computed) -> None:
        self.done.append(lease.task)

    async def local_waits(self, lease: LocalLease, error: GoblinError) -> None:
        self.waited.append(error.code)

    async def local_failed(self, lease: LocalLease, error: GoblinError) -> None:
        self.failed.append(error.code)


async def until(condition: object) -> None:
    for _ in range(2000):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not happen")


def play(host: Host, finished: object, *, outstanding: int = 3) -> None:
    async def run() -> None:
        executor = LocalExecutor(host, FLEET, outstanding, 0.001)
        await executor.start()
        executor.submit("job")
        await until(finished)
        await executor.stop()

    asyncio.run(run())


def test_the_engine_always_has_the_next_tasks() -> None:
    host = Host(20)
    play(host, lambda: len(host.done) == 20)
    assert host.most == 3
    assert sorted(host.done) == list(range(1, 21))


def test_a_full_disk_is_waited_for() -> None:
    host = Host(1, StoreError("disk_full", **FULL), StoreError("disk_full", **FULL))
    play(host, lambda: host.done == [1])
    assert host.waited == ["disk_full"] * 2
    assert host.failed == []


def test_failures_and_surprises_are_told() -> None:
    host = Host(2, NodeError("user_unknown", name="x"), ValueError("what"))
    play(host, lambda: len(host.failed) == 2)
    assert sorted(host.failed) == ["internal", "user_unknown"]


def test_cancel_ends_the_work_and_is_acknowledged() -> None:
    async def run() -> None:
        host = Host(1)
        host.gate.clear()
        executor = LocalExecutor(host, FLEET, 3)
        seen: list[tuple[str, str]] = []

        async def read() -> None:
            async for event in executor.events():
                seen.append((event.kind, event.lease))

        reader = asyncio.create_task(read())
        await executor.start()
        executor.submit("job")
        await until(lambda: host.at_once == 1)
        executor.cancel("l1")
        executor.cancel("nobody")
        await until(lambda: ("cancelled", "l1") in seen)
        assert host.done == []
        await executor.stop()
        await reader

    asyncio.run(run())


def test_a_rate_is_learned() -> None:
    async def run() -> None:
        executor = LocalExecutor(Host(0), FLEET, 3)
        executor.learn(5e9)
        assert (await executor.capabilities()).flops_per_s == 5e9

    asyncio.run(run())
