"""Checks and recomputations on the machines of the Ray cluster, beside the node's own workers.

Owns: the rule that a machine never checks its own result, and that a refusal is confirmed by the
node. Must not: write into a result (the node folds what a machine accepted), or judge anything.
"""

from __future__ import annotations

import logging
from collections import Counter

from gpugoblin.errors import GoblinError
from server_stub.node import items
from server_stub.node.executors.ray import RayHost
from server_stub.node.executors.ray_link import Link
from server_stub.node.state import own
from server_stub.node.state.words import RAY_DEVICES, RunWork
from server_stub.node.store.protocol import Tx
from server_stub.node.work import Check, Checked, Compare, Fold, Recompute, Reply, Work
from server_stub.node.workrunner import Pool

__all__ = ["RayChecks", "makers"]

AT_ONCE = 4
"""Checks at one machine at one time."""

log = logging.getLogger("gpugoblin.node.ray")


def makers(tx: Tx, effect: RunWork) -> frozenset[str]:
    """The devices whose results an instruction is about."""
    rows = tx.rows("select device from lease where id in (?, ?)", (effect.lease, effect.second))
    return frozenset(device for (device,) in rows)


class RayChecks:
    """Runs items as the node's pool does, those that judge on another machine where one is free."""

    def __init__(self, host: RayHost, link: Link, pool: Pool) -> None:
        self._host = host
        self._link = link
        self._pool = pool
        self._busy: Counter[str] = Counter()

    async def run(self, effect: RunWork, item: Work) -> Reply:
        """Raises GoblinError: as the pool."""
        seat = await self._seat_for(effect, item)
        packed = None
        if seat:
            packed = await self._host.store.read(lambda tx: items.build_packed(tx, effect))
        if packed is None:
            return await self._pool.run(item)
        self._busy[seat] += 1
        try:
            reply = await self._link.run(seat, packed)
        except GoblinError as error:
            log.warning("%s of task %s: %s", effect.purpose, effect.task, error)
            return await self._pool.run(item)
        finally:
            self._busy[seat] -= 1
        return await self._concluded(item, reply)

    async def _seat_for(self, effect: RunWork, item: Work) -> str:
        """The least busy machine that had no part in the results; "" where there is none, or where
        one that had is not known any more: it may have come back under another id."""
        if not isinstance(item, (Check, Recompute, Compare)):
            return ""
        if not isinstance(item, Compare) and not item.committed:
            return ""
        if not self._link.seats:
            return ""
        made_by = await self._host.store.read(lambda tx: makers(tx, effect))
        marks = self._marks(made_by)
        if marks is None:
            return ""
        others = [
            name
            for name, seat in self._link.seats.items()
            if self._busy[name] < AT_ONCE
            and own.device_of(name) not in made_by
            and marks.isdisjoint(seat.marks)
        ]
        return min(others, key=lambda seat: self._busy[seat], default="")

    def _marks(self, made_by: frozenset[str]) -> set[str] | None:
        """Of the computers of these devices; None where one of them is not known."""
        marks: set[str] = set()
        for device in made_by:
            if not device.startswith(RAY_DEVICES):
                continue
            seat = self._link.known.get(device.removeprefix(RAY_DEVICES))
            if seat is None:
                return None
            marks.update(seat.marks)
        return marks

    async def _concluded(self, item: Work, reply: Reply) -> Reply:
        if not isinstance(reply, Checked):
            return await self._pool.run(item)
        if isinstance(item, Recompute) and not reply.accepted:
            # Only the node's own validator decides against anybody, and makes the repair.
            return await self._pool.run(item)
        if isinstance(item, (Check, Recompute)) and item.fold and reply.accepted:
            await self._pool.run(Fold(item.work, item.committed, item.outputs))
        return reply
