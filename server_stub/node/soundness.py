"""Whether verified parts of results are still what was verified, when somebody reads them.

Owns: the look at the parts that a region touches, and the way back of those that a disk damaged.
A part that was looked at is not looked at again for a while: many small regions of a large part
cost one look. Files of a researcher that are complete are theirs to change. Must not: serve a byte.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from gpugoblin.errors import NodeError, StoreError
from gpugoblin.plan.spec import Region
from server_stub.node import arrays as files
from server_stub.node import remaking
from server_stub.node.items import array_file
from server_stub.node.leftovers import Host as _Host
from server_stub.node.planning import Planner
from server_stub.node.state import lost, tasks
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.store.protocol import Tx
from server_stub.node.work import Box

__all__ = ["Part", "Soundness", "parts"]

KEPT_S: Final = 60.0
MAX_KEPT: Final = 65_536


class Host(_Host, Protocol):
    """What is asked of the node."""

    @property
    def planner(self) -> Planner: ...


class Part(NamedTuple):
    """A verified output (`task`, `slot`) in its place; `at_s`: when it was put there."""

    task: int
    slot: int
    box: str
    blob: str
    at_s: float


def parts(tx: Tx, row: ArrayRow, region: Region) -> list[Part]:
    """Those that have an element in a region of an output."""
    first, last = (region.start[0], region.stop[0]) if region.start else (0, 1)
    found = [Part(*each) for each in tx.rows(
        "select task, slot, box, blob, at_s from fold"
        " where job = ? and array = ? and start0 < ? and stop0 > ?",
        (row.job, row.number, last, first),
    )]  # fmt: skip
    return [part for part in found if _touches(tasks.read_box(part.box), region)]


def _touches(box: Region, region: Region) -> bool:
    sides = zip(box.start, box.stop, region.start, region.stop, strict=True)
    return all(max(start, first) < min(stop, last) for start, stop, first, last in sides)


class Soundness:
    """Of one node's results."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._kept: OrderedDict[Part, float] = OrderedDict()

    async def require(self, host: Host, row: ArrayRow, region: Region) -> None:
        """Returns when all of a region is what was verified.

        Raises:
            NodeError: `result_damaged`: it is computed again.
        """
        if row.job is None or (row.complete and not row.ours):
            return
        damaged = await self._look(host, row, region, None)
        if damaged:  # unless it was put there again while we looked
            damaged = await self._look(host, row, region, damaged)
        if not damaged:
            return
        places = [(part.task, part.slot) for part in damaged]
        found = await remaking.of_results(host, places)
        found += await host.handle(lambda step: lost.lose_results(step, places))
        for each in found:
            host.planner.forget(each.job)
        raise NodeError(
            "result_damaged", start=region.start, stop=region.stop, path=row.path,
            tasks=sum(each.tasks for each in found),
        )  # fmt: skip

    async def _look(
        self, host: Host, row: ArrayRow, region: Region, among: Collection[Part] | None
    ) -> list[Part]:
        """Parts that are not what they were; `among` these."""
        now_s = self._monotonic_s()
        there = await host.store.read(lambda tx: parts(tx, row, region))
        wanted = [part for part in there
                  if self._kept.get(part, now_s - KEPT_S) <= now_s - KEPT_S
                  and (among is None or part in among)]  # fmt: skip
        if not wanted:
            return []
        damaged = await asyncio.to_thread(_damaged, row, wanted)
        for part in wanted:
            self._kept.pop(part, None)
            if part not in damaged:
                self._kept[part] = now_s
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return damaged


def _damaged(row: ArrayRow, wanted: Collection[Part]) -> list[Part]:
    """What cannot be read is not served either, with the cause of its own."""
    file, found = array_file(row), []
    for part in wanted:
        region = tasks.read_box(part.box)
        try:
            if files.box_hash(file, Box(region.start, region.stop)) != part.blob:
                found.append(part)
        except StoreError:
            continue
    return found
