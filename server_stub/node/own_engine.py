"""The node's side of its own engine: leases, items and answers of the executor `local`.

Owns: what becomes of each answer of the engine in the state machine. Must not: keep the engine fed
(`executors.local` does), or decide what a result is worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpugoblin.errors import GoblinError
from server_stub.node import answers
from server_stub.node.state import dispatch, rates, verdicts
from server_stub.node.state.words import RunWork, Step
from server_stub.node.work import Compute, Computed, Reply, Work

if TYPE_CHECKING:
    from server_stub.node.node import Node

__all__ = ["OwnEngine"]


class OwnEngine:
    """What the local executor asks for (`LocalHost`)."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def lease_local(self, want: int) -> list[dispatch.LocalLease]:
        node = self._node
        if node.draining:
            return []
        return await node.handle(lambda step: dispatch.lease_local(step, want, node.local.dtypes))

    async def compute_item(self, lease: dispatch.LocalLease) -> Work | None:
        return await self._node.build(RunWork("compute", lease.task, lease.lease))

    async def run_work(self, item: Work) -> Reply:
        return await self._node.pool.run(item)

    async def local_done(self, lease: dispatch.LocalLease, reply: Computed) -> None:
        node, effect = self._node, RunWork("compute", lease.task, lease.lease)
        item = await node.build(effect)
        if item is None:
            return
        kept = answers.kept_blobs(item, reply)

        def body(step: Step) -> float:
            if node.has_blobs(kept):
                answers.apply(step, effect, reply)
            else:
                verdicts.work_failed(step, "compute", lease.task, lease.lease, "blob_missing", "")
            flops = item.flops if isinstance(item, Compute) else 0
            return rates.learn(step, flops, reply.compute_s)

        node.local.learn(await node.persist(body))

    async def local_waits(self, lease: dispatch.LocalLease, error: GoblinError) -> None:
        await self._node.failed(RunWork("compute", lease.task, lease.lease), error, True)

    async def local_failed(self, lease: dispatch.LocalLease, error: GoblinError) -> None:
        await self._node.failed(RunWork("compute", lease.task, lease.lease), error, False)
