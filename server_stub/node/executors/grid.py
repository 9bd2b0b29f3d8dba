"""Volunteers' devices, as an executor: they pull leases over HTTP.

Owns: what the exchange of a device becomes in the node, and the tickets that its leases carry.
Must not: hold a rule (`state.dispatch`), verify signatures (`http.devices`), or touch bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import reduce
from operator import and_
from typing import Final, Protocol, TypeVar

from gpugoblin.errors import GoblinError
from gpugoblin.units import MIB
from gpugoblin.wire.messages.lease import Exchange, ExchangeReply, Uploaded, UploadedReply
from server_stub.node.executors.base import EventFeed, ExecutorEvent, Fleet
from server_stub.node.settings import NodeSettings
from server_stub.node.state import dispatch, leases, links, rates, verdicts
from server_stub.node.state.words import Party, Rules, Step
from server_stub.node.store.protocol import Store, Tx

__all__ = ["GridExecutor", "GridHost"]

T = TypeVar("T")

MOST_AT_ONCE: Final = 96
"""Results and wished tasks of the requests that share a transaction, and at least one a request: it
holds up the event loop."""

LEAST_MEMORY_BYTES: Final = 64 * MIB
LEAST_SLOT_BYTES: Final = MIB
"""Devices with less may compute what fits them; plans do not count on them."""


class GridHost(Protocol):
    """What the executor asks of the node."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> NodeSettings: ...

    @property
    def rules(self) -> Rules: ...

    async def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T: ...


class _Waiting:
    """A request and who waits for its answer."""

    __slots__ = ("asked", "reply")

    def __init__(self, asked: dispatch.Asked) -> None:
        self.asked = asked
        self.reply: asyncio.Future[ExchangeReply | None] = (
            asyncio.get_running_loop().create_future()
        )

    def fail(self, error: Exception) -> None:
        if not self.reply.done():
            self.reply.set_exception(error)


class GridExecutor:
    """The devices that hold a grant for this lab."""

    name = "grid"

    def __init__(self, host: GridHost) -> None:
        self._host = host
        self._feed = EventFeed()
        self._work = asyncio.Event()
        self._waiting: deque[_Waiting] = deque()
        self._answering: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Ends the feed and every held request."""
        self._feed.close()
        self._work.set()

    async def wait_for_work(self, timeout_s: float) -> bool:
        """Returns True when there may be work, False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._work.wait()
        except TimeoutError:
            return False
        return True

    async def capabilities(self, needs: int = 0) -> Fleet:
        """The devices that were here lately and have these dtypes, as a plan should see them."""
        settings, rules = self._host.settings, self._host.rules
        rows, link = await self._host.store.read(lambda tx: _active(tx, rules, needs))
        # One device that says it offers next to nothing must not make every plan impossible.
        least = (
            min(LEAST_MEMORY_BYTES, settings.grid_memory_bytes),
            min(LEAST_SLOT_BYTES, settings.grid_slot_bytes),
        )
        rows = [row for row in rows if row[0] >= least[0] and row[1] >= least[1]]
        if not rows:
            return Fleet(0, settings.grid_memory_bytes, settings.grid_slot_bytes, 1, 0.0, 0.0, 0)
        # Plans are made for the smallest devices but the last quarter, so that most can help.
        by_memory = sorted(rows, key=lambda row: row[0])
        usual = by_memory[len(by_memory) // 4]
        slot_bytes = sorted(row[1] for row in rows)[len(rows) // 4]
        return Fleet(
            engines=len(rows),
            memory_bytes=usual[0],
            slot_bytes=min(slot_bytes, settings.grid_slot_bytes),
            threads=1,
            flops_per_s=sum(row[2] for row in rows),
            # What a device says of bytes is its memory's rate: nothing about its way to the lab.
            bytes_per_s=len(rows) * link.bytes_per_s,
            dtypes=reduce(and_, (row[3] for row in rows)),
        )

    def submit(self, job: str) -> None:
        """Idle devices whose request is held are answered."""
        self._work.set()
        self._work = asyncio.Event()

    def cancel(self, lease: str) -> None:
        """The device hears of it in its next exchange."""
        self._feed.put("cancelled", lease)

    def events(self) -> AsyncIterator[ExecutorEvent]:
        return self._feed.read()

    async def exchange(
        self, party: Party, message: Exchange, nonce: tuple[bytes, bytes, float] | None = None
    ) -> ExchangeReply | None:
        """A device's exchange, in one transaction. None: this signed request was here before.

        Requests that come while others are being committed are answered together.
        """
        waiting = _Waiting(dispatch.Asked(party, message, nonce))
        self._waiting.append(waiting)
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_all())
        reply = await waiting.reply
        if reply is not None:
            for lease in reply.leases:
                self._feed.put("leased", lease.lease)
            for lost in message.abandons:
                self._feed.put("failed", lost.lease)
        return reply

    async def _answer_all(self) -> None:
        try:
            while some := self._next():
                await self._answer(some)
        finally:
            self._answering = None

    def _next(self) -> list[_Waiting]:
        """The requests that share the next transaction, in the order in which they came."""
        some: list[_Waiting] = []
        room = MOST_AT_ONCE
        while self._waiting and room > 0:
            waiting = self._waiting.popleft()
            message = waiting.asked.message
            room -= max(1, message.want + len(message.commits))
            some.append(waiting)
        return some

    async def _answer(self, some: list[_Waiting]) -> None:
        asked = [waiting.asked for waiting in some]
        try:
            replies = await self._host.handle(
                lambda step: dispatch.signed_exchanges(step, asked), brief=True
            )
        except Exception as error:  # the edge of the task: whoever waits sees it
            # One request's fault is not the others': nothing has happened, and each is alone now.
            # A database that cannot be written fails for all, however often it is asked.
            if len(some) > 1 and not isinstance(error, GoblinError):
                for waiting in some:
                    await self._answer([waiting])
                return
            for waiting in some:
                waiting.fail(error)
        except BaseException:  # the loop is ending
            for waiting in some:
                waiting.reply.cancel()
            raise
        else:
            for waiting, reply in zip(some, replies, strict=True):
                if not waiting.reply.done():  # it may have hung up
                    waiting.reply.set_result(reply)

    async def uploaded(
        self,
        party: Party,
        message: Uploaded,
        present: Callable[[Sequence[tuple[str, int]]], list[bool]],
    ) -> UploadedReply:
        """The bytes of a lease are here, says its device; `present` asks the blob store for
        blobs by name and size."""

        def body(step: Step) -> UploadedReply:
            named = leases.votes(step.tx, message.lease)
            state, missing = verdicts.uploaded(step, party, message.lease, present(named))
            return UploadedReply(state, missing)

        reply = await self._host.handle(body)
        if reply.state == "checking":
            self._feed.put("finished", message.lease)
        return reply


def _active(
    tx: Tx, rules: Rules, needs: int
) -> tuple[list[tuple[int, int, float, int]], links.Link]:
    """(memory, slot, FLOP/s, dtypes) of each device that has what is needed, at measured or bounded
    rates; and the link of one of them."""
    # Seen within the time that makes a device count, by the newest device's own moment.
    rows = tx.rows(
        "select memory_bytes, max_slot_bytes, flops_per_s, dtypes, key from device"
        " where memory_bytes > 0 and seen_s >= (select max(seen_s) from device) - ?"
        " and ? & ~dtypes = 0",
        (rules.active_s, needs),
    )
    measured = rates.grid_flops_per_s(tx) if rows else {}
    best = max(measured.values(), default=0.0)
    found = [
        (memory, slot, rates.believed(flops_per_s, measured.get(key), best), dtypes)
        for memory, slot, flops_per_s, dtypes, key in rows
    ]
    return found, (links.measured(tx) if rows else None) or links.ASSUMED
