"""The pool with real worker processes (engine level `none`)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.blobs.store import BlobStore
from gpugoblin.errors import GoblinError, StoreError, VerifyError
from server_stub.node import pool as pool_module
from server_stub.node.pool import PoolConfig, WorkerPool
from server_stub.node.work import (
    BlobInput,
    Check,
    Checked,
    Computed,
    Describe,
    Described,
    Fold,
    Prepare,
    Prepared,
    Recompute,
)
from tests.helpers.node_work import (
    blob_of,
    check_item,
    compute_item,
    function_graph,
    load_file,
    product_graph,
    recompute_item,
    region_of,
    result_of,
)

A = np.random.default_rng(0).standard_normal((40, 30), dtype=np.float32)
B = np.random.default_rng(1).standard_normal((30, 300), dtype=np.float32)
MIB = 1024 * 1024


def with_pool(place: Path, body: Callable[[WorkerPool], Awaitable[None]], **more: Any) -> None:
    """Runs `body` with a started pool and stops it whatever happens."""
    config = PoolConfig(
        place / "state", place / "blobs", level="none", engine_memory_bytes=16 * MIB,
        cache_bytes=8 * MIB, **more,
    )  # fmt: skip

    async def main() -> None:
        pool = WorkerPool(config)
        await pool.start()
        try:
            await asyncio.wait_for(body(pool), 100)
        finally:
            await pool.stop()

    asyncio.run(main())


def test_every_kind_of_item(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    product, tanh = product_graph(40, 30, 300), function_graph("tanh", 40, 30)
    a, b = region_of(tmp_path, "a", A), region_of(tmp_path, "b", B)

    async def body(pool: WorkerPool) -> None:
        assert pool.processes() == []
        described = await pool.run(Describe("d", "npy", a.array.path))
        assert described == Described("d", a.array)
        assert len(pool.processes()) == 1
        prepared = await pool.run(Prepare("p", a, store=True))
        assert prepared == Prepared("p", blob_hash(A.tobytes()), A.nbytes)
        place = result_of(tmp_path, "c", "float32", (40, 300))
        computed = await pool.run(compute_item("c", product, (a, b), (place,)))
        assert isinstance(computed, Computed)
        assert computed.verified
        committed = (blob_of(store, load_file(place.array)),)
        again = result_of(tmp_path, "c2", "float32", (40, 300))
        checked = await pool.run(check_item("k", product, (a, b), committed, (again,)))
        assert isinstance(checked, Checked)
        assert checked.accepted
        np.testing.assert_array_equal(load_file(again.array), load_file(place.array))
        lie = (blob_of(store, A),)
        y = result_of(tmp_path, "y", "float32", (40, 30))
        judged = await pool.run(recompute_item("r", tanh, (a,), lie, (y,)))
        assert isinstance(judged, Checked)
        assert not judged.accepted
        np.testing.assert_allclose(load_file(y.array), np.tanh(A), rtol=1e-5)
        await pool.run(Fold("f", lie, (y,)))
        np.testing.assert_array_equal(load_file(y.array), A)
        assert len(pool.processes()) == 3

    with_pool(tmp_path, body)


def test_failures_are_errors_of_their_family(tmp_path: Path) -> None:
    async def body(pool: WorkerPool) -> None:
        with pytest.raises(StoreError) as caught:
            await pool.run(Describe("d", "npy", str(tmp_path / "missing")))
        assert caught.value.code == "array_unreadable"
        assert "missing" in str(caught.value)

    with_pool(tmp_path, body)


def test_dead_workers_are_replaced_and_items_sent_again(tmp_path: Path) -> None:
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        await pool.run(Describe("d0", "npy", a.array.path))
        (first,) = pool.processes()
        os.kill(first, signal.SIGSTOP)
        items = [
            asyncio.ensure_future(pool.run(Describe(f"d{number}", "npy", a.array.path)))
            for number in range(1, 7)
        ]
        await asyncio.sleep(0.1)
        assert not any(item.done() for item in items)
        os.kill(first, signal.SIGKILL)
        replies = await asyncio.gather(*items)
        assert [reply.work for reply in replies] == [f"d{number}" for number in range(1, 7)]
        assert first not in pool.processes()

    with_pool(tmp_path, body)


def test_items_that_come_between_a_death_and_its_discovery_are_done(tmp_path: Path) -> None:
    """Under the loop that the node runs on, whose closed transports raise RuntimeError."""
    a = region_of(tmp_path, "a", A)

    async def main() -> None:
        pool = WorkerPool(PoolConfig(tmp_path / "state", tmp_path / "blobs", level="none"))
        await pool.start()
        try:
            await pool.run(Describe("d", "npy", a.array.path))
            (first,) = pool.processes()
            (seat,) = pool._crews["check"]._seats
            assert seat.writer is not None
            seat.writer.transport.abort()
            os.kill(first, signal.SIGKILL)
            await asyncio.sleep(0)
            items = [pool.run(Describe(f"d{number}", "npy", a.array.path)) for number in range(3)]
            replies = await asyncio.wait_for(asyncio.gather(*items), 30.0)
            assert all(isinstance(reply, Described) for reply in replies)
        finally:
            await pool.stop()

    uvloop.run(main())


@pytest.mark.parametrize("waiting", [0, 4])
def test_items_that_come_while_a_dead_worker_is_replaced_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr(pool_module, "RESTART_S", 0.3)
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        await pool.run(Describe("d", "npy", a.array.path))
        (first,) = pool.processes()
        os.kill(first, signal.SIGSTOP)
        items = [
            asyncio.ensure_future(pool.run(Describe(f"old{number}", "npy", a.array.path)))
            for number in range(waiting)
        ]
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        while pool.processes():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # its death is seen, the next one is not there yet
        items.append(asyncio.ensure_future(pool.run(Describe("new", "npy", a.array.path))))
        replies = await asyncio.wait_for(asyncio.gather(*items), 30.0)
        assert all(isinstance(reply, Described) for reply in replies)

    with_pool(tmp_path, body)


KILLER = """
import os, signal, sys
from server_stub.node import worker
from server_stub.node.workers import checks
real = checks.CheckDesk.do
def do(self, work):
    if work.work == "poison":
        print("about to end", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, work)
checks.CheckDesk.do = do
sys.exit(worker.main(sys.argv[1:]))
"""


def test_an_item_that_kills_is_given_up_and_hurts_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = region_of(tmp_path, "a", A)
    real = PoolConfig.arguments

    def arguments(self: PoolConfig, kind: Any, descriptor: int) -> list[str]:
        given = real(self, kind, descriptor)
        return [given[0], "-I", "-c", KILLER, *given[4:]]

    monkeypatch.setattr(PoolConfig, "arguments", arguments)
    monkeypatch.setattr(pool_module, "RESTART_S", 0.01)

    async def body(pool: WorkerPool) -> None:
        poison = asyncio.ensure_future(pool.run(Describe("poison", "npy", a.array.path)))
        others = [
            asyncio.ensure_future(pool.run(Describe(f"d{number}", "npy", a.array.path)))
            for number in range(4)
        ]
        for reply in await asyncio.gather(*others):
            assert isinstance(reply, Described)
        with pytest.raises(VerifyError) as caught:
            await poison
        assert caught.value.code == "item_kills_worker"
        assert caught.value.fields["deaths"] == 3
        assert "about to end" in str(caught.value)

    with_pool(tmp_path, body)


def test_an_item_that_only_waited_at_a_death_is_no_suspect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's window holds the one that kills and one behind it, at every death."""
    real = PoolConfig.arguments

    def arguments(self: PoolConfig, kind: Any, descriptor: int) -> list[str]:
        given = real(self, kind, descriptor)
        return [given[0], "-I", "-c", KILLER, *given[4:]]

    monkeypatch.setattr(PoolConfig, "arguments", arguments)
    monkeypatch.setattr(pool_module, "RESTART_S", 0.01)
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        poison = asyncio.ensure_future(pool.run(Describe("poison", "npy", a.array.path)))
        behind = asyncio.ensure_future(pool.run(Describe("behind", "npy", a.array.path)))
        await asyncio.sleep(0)
        (seat,) = pool._crews["check"]._seats
        waiting = seat.under_way["behind"]
        assert isinstance(await behind, Described)
        assert (waiting.deaths, waiting.barren) == (0, 0)
        with pytest.raises(VerifyError):
            await poison

    with_pool(tmp_path, body)


def test_a_worker_that_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "RESTART_S", 0.01)
    monkeypatch.setattr(PoolConfig, "arguments", lambda self, kind, fd: ["/does/not/exist"])

    async def body(pool: WorkerPool) -> None:
        with pytest.raises(VerifyError) as caught:
            await pool.run(Describe("d", "npy", "/x"))
        assert caught.value.code == "worker_does_not_start"
        assert "/does/not/exist" in str(caught.value)

    with_pool(tmp_path, body)


def test_checks_come_before_preparing(tmp_path: Path) -> None:
    """While the one worker stands still, items queue up; then they come by priority."""
    a = region_of(tmp_path, "a", A)
    missing = BlobInput("0" * 64, 4, "float32", (1,))
    done: list[str] = []

    async def body(pool: WorkerPool) -> None:
        await pool.run(Describe("first", "npy", a.array.path))
        (pid,) = pool.processes()
        os.kill(pid, signal.SIGSTOP)

        async def run(work: Any) -> None:
            with suppress(GoblinError):  # the order is what counts here
                await pool.run(work)
            done.append(work.work)

        items = [run(Prepare(f"prepare{number}", a, store=False)) for number in range(6)]
        items += [run(Check("check", b"", "float32", (), (missing,), (), fold=False))]
        items += [run(Fold("fold", (missing,), ()))]
        tasks = [asyncio.ensure_future(item) for item in items]
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGCONT)
        await asyncio.gather(*tasks)

    with_pool(tmp_path, body)
    assert done.index("fold") <= 2
    assert done.index("check") <= 3


def test_callers_are_held_back(tmp_path: Path) -> None:
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        works = [Prepare(f"p{number}", a, store=False) for number in range(20)]
        replies = await asyncio.gather(*(pool.run(work) for work in works))
        assert len(replies) == 20

    with_pool(tmp_path, body, waiting=2)


def test_cancelled_callers_leave_the_queue(tmp_path: Path) -> None:
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        await pool.run(Describe("first", "npy", a.array.path))
        (pid,) = pool.processes()
        os.kill(pid, signal.SIGSTOP)
        tasks = [
            asyncio.ensure_future(pool.run(Prepare(f"p{number}", a, store=False)))
            for number in range(5)
        ]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        os.kill(pid, signal.SIGCONT)
        reply = await pool.run(Describe("last", "npy", a.array.path))
        assert reply.work == "last"

    with_pool(tmp_path, body)


def test_stop_answers_everybody(tmp_path: Path) -> None:
    a = region_of(tmp_path, "a", A)

    async def body(pool: WorkerPool) -> None:
        await pool.run(Describe("first", "npy", a.array.path))
        (pid,) = pool.processes()
        os.kill(pid, signal.SIGSTOP)
        tasks = [
            asyncio.ensure_future(pool.run(Prepare(f"p{number}", a, store=False)))
            for number in range(5)
        ]
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGCONT)
        await pool.stop()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, Prepared) or (
                isinstance(result, VerifyError) and result.code == "pool_stopped"
            )
        with pytest.raises(VerifyError):
            await pool.run(Describe("late", "npy", a.array.path))

    with_pool(tmp_path, body)


def test_no_local_engine(tmp_path: Path) -> None:
    a, b = region_of(tmp_path, "a", A), region_of(tmp_path, "b", B)
    place = result_of(tmp_path, "c", "float32", (40, 300))

    async def body(pool: WorkerPool) -> None:
        with pytest.raises(VerifyError) as caught:
            await pool.run(compute_item("c", product_graph(40, 30, 300), (a, b), (place,)))
        assert caught.value.code == "item_failed"

    with_pool(tmp_path, body, local=False)


def test_limits_of_the_config(tmp_path: Path) -> None:
    limits = PoolConfig(tmp_path, tmp_path, engine_memory_bytes=5, slot_bytes=3).limits()
    assert (limits.memory_bytes, limits.slot_bytes, limits.threads) == (5, 3, 1)
    assert isinstance(Recompute("r", b"", "exact", (), (), (), False, False, 0, 0).work, str)
