"""The shell: effects after the transaction, loops that survive, blobs that race with deletion."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.errors import NodeError
from server_stub.node.state import blobs
from server_stub.node.state.words import JobChanged, Step
from server_stub.node.work import Prepare
from tests.helpers.lab import (
    FullDisk,
    Lab,
    gate,
    product,
    row_sums,
    until,
)
from tests.helpers.node import LabNode

__all__: list[str] = []


def test_a_file_goes_with_the_last_reference_and_its_row_soon_after(tmp_path: Path) -> None:
    with LabNode(tmp_path) as node:
        store = node.workers.store
        blob = store.put(b"bytes")
        node.call(node.node.handle(lambda s: blobs.hold(s, blob, 5)))
        assert store.has(blob)
        node.call(node.node.handle(lambda s: blobs.release(s, blob)))
        assert not store.has(blob)
        until(lambda: node.read("select count(*) from blob") == [(0,)])


def test_what_a_handler_raises_reaches_the_caller_and_changes_nothing(tmp_path: Path) -> None:
    def body(step: Step) -> None:
        step.tx.change("insert into meta values('half', '1')")
        raise NodeError("user_unknown", name="x")

    with LabNode(tmp_path) as node:
        with pytest.raises(NodeError):
            node.call(node.node.handle(body))
        assert node.read("select count(*) from meta where key = 'half'") == [(0,)]


def test_who_waits_for_a_job_is_woken(tmp_path: Path) -> None:
    async def play(node: Any) -> float:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        waiting = asyncio.create_task(node.wait_change("job_a", 20.0))
        await asyncio.sleep(0)
        await node.handle(lambda step: step.emit(JobChanged("job_a")))
        await waiting
        return loop.time() - started_s

    with LabNode(tmp_path) as node:
        assert node.call(play(node.node)) < 19.0


def test_a_blob_that_was_deleted_under_a_worker_is_made_again(tmp_path: Path) -> None:
    """The same content let go of between the worker's answer and the transaction."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from gpugoblin.wire.messages.task import Constraints
    from gpugoblin.wire.signing import public_key_bytes
    from tests.helpers.node import Workers

    class Forgetful(Workers):
        dropped = 0

        def _do(self, work: Any) -> Any:
            reply = super()._do(work)
            if isinstance(work, Prepare) and self.dropped < 2:
                self.dropped += 1
                self.store.delete(reply.blob)  # type: ignore[union-attr]
            return reply

    key = public_key_bytes(Ed25519PrivateKey.generate()).hex()
    workers = Forgetful(tmp_path / "state" / "blobs")
    given = {"lab": "lab_abc", "confirmed_no_confidential_data": True, "coordinator_key": key}
    with LabNode(tmp_path, workers=workers, **given) as node, Lab(node, tmp_path) as lab:
        array = lab.file(np.ones((4, 4), np.float32), "v.npy")
        lab.submit(row_sums((4, 4)), array, executor="grid", force=True,
                   constraints=Constraints(sandbox="none"))  # fmt: skip
        until(lambda: node.read("select count(*) from task where state = 'ready'") != [(0,)])
        assert workers.dropped == 2
        for (blob,) in node.read("select blob from task_input"):
            assert workers.store.has(blob)


def test_answers_wait_for_a_database_that_is_full(tmp_path: Path) -> None:
    """Nobody would bring them again: their jobs would stand still until the next start."""
    with LabNode(tmp_path) as node:
        lab = Lab(node, tmp_path)
        node.workers.hold = node.call(gate())
        disk = FullDisk(node)
        a, b, graph = product(30, 4, 7)
        done = lab.submit(graph, lab.file(a, "a.npy"), lab.file(b, "b.npy"))
        sums = lab.submit(row_sums((4, 4)), lab.file(np.ones((4, 4), np.float32), "v.npy"))
        until(lambda: lab.job(done.job).leased == lab.job(sums.job).leased == 1)
        disk.is_full = True
        node.call(_open(node.workers.hold))
        until(lambda: disk.refused > 2)
        waiting = lab.job(done.job)
        assert (waiting.state, waiting.error_code) == ("running", "database_failed")
        assert "Make space" in waiting.error_text
        disk.is_full = False
        for job in (done, sums):
            ended = lab.wait(job)
            assert (ended.state, ended.error_code) == ("done", "")
        lab.client.close()


async def _open(hold: asyncio.Event) -> None:
    hold.set()
