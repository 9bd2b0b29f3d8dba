"""Who of the validators is here, and what each of them works on.

Owns: the items that were given to validators, and the end of their waiting: an answer, a validator
that is not heard any more, or one that takes too long. Must not: know a task or trust an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from gpugoblin.errors import NodeError
from server_stub.node.executors.ray_hand import inputs_of
from server_stub.node.state.validators import Validator
from server_stub.node.validating.words import HOLD_S, LOST_S
from server_stub.node.work import Failed, Reply, Work
from server_stub.node.workers.frames import error_of

__all__ = ["AT_ONCE", "Desk"]

AT_ONCE: Final = 2
"""Items at one validator at one time."""

ITEM_S: Final = 600.0
"""After which an item is the node's own again, whatever the validator says."""


@dataclass(slots=True)
class _Item:
    work: Work
    blobs: frozenset[str]
    answer: asyncio.Future[Reply]
    given_s: float | None = None


@dataclass(slots=True)
class _Here:
    """A validator that is here."""

    validator: Validator
    heard_s: float
    items: dict[str, _Item] = field(default_factory=dict)
    queue: deque[str] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)


class Desk:
    """All validators of one node, in its event loop."""

    def __init__(
        self, monotonic_s: Callable[[], float] = time.monotonic, *, hold_s: float = HOLD_S,
        lost_s: float = LOST_S,
    ) -> None:  # fmt: skip
        self._monotonic_s = monotonic_s
        self._hold_s = hold_s
        self._lost_s = lost_s
        self._here: dict[str, _Here] = {}
        self._stopped = False
        self.done: dict[str, int] = {}

    def present(self) -> list[Validator]:
        """Those that were heard lately and have room, the least busy first."""
        since_s = self._monotonic_s() - self._lost_s
        able = [one for one in self._here.values()
                if one.heard_s >= since_s and len(one.items) < AT_ONCE]  # fmt: skip
        return [one.validator for one in sorted(able, key=lambda one: len(one.items))]

    async def do(self, name: str, work: Work) -> Reply:
        """Has a validator do an item.

        Raises:
            NodeError: `validator_lost`. GoblinError: the item failed there, by its own code.
        """
        here = self._here.get(name)
        if here is None or work.work in here.items:
            raise NodeError("validator_lost", name=name)
        item = _Item(work, frozenset(inputs_of(work)), asyncio.get_running_loop().create_future())
        here.items[work.work] = item
        here.queue.append(work.work)
        here.news.set()
        ends_s = self._monotonic_s() + ITEM_S
        try:
            while not item.answer.done():
                await asyncio.wait([item.answer], timeout=self._lost_s / 8)
                now_s = self._monotonic_s()
                lost = here.heard_s < now_s - self._lost_s or self._here.get(name) is not here
                if not item.answer.done() and (lost or now_s > ends_s):
                    raise NodeError("validator_lost", name=name)
            reply = item.answer.result()
        finally:
            here.items.pop(work.work, None)
        if isinstance(reply, Failed):
            raise error_of(reply)
        self.done[name] = self.done.get(name, 0) + 1
        return reply

    async def take(
        self, validator: Validator, *, want: bool, has: Collection[str] = ()
    ) -> Work | None:
        """The next item of a validator, or None when there is none within a while.

        Args:
            has: what it says to work on.
        """
        here = self._here.get(validator.name)
        if here is None or here.validator != validator:
            here = self._here[validator.name] = _Here(validator, 0.0)
        here.heard_s = self._monotonic_s()
        self._forgotten(here, has)
        if not want or self._stopped:
            return None
        found = self._next(here)
        if found is None:
            here.news.clear()
            try:
                async with asyncio.timeout(self._hold_s):
                    await here.news.wait()
            except TimeoutError:
                return None
            found = self._next(here)
        return found

    def _next(self, here: _Here) -> Work | None:
        while here.queue:
            item = here.items.get(here.queue.popleft())
            if item is not None and item.given_s is None:
                item.given_s = self._monotonic_s()
                return item.work
        return None

    def _forgotten(self, here: _Here, has: Collection[str]) -> None:
        """What a validator was given a while ago and does not have is the node's again."""
        since_s = self._monotonic_s() - self._lost_s
        for name, item in here.items.items():
            late = item.given_s is not None and item.given_s < since_s
            if late and name not in has and not item.answer.done():
                item.answer.set_exception(NodeError("validator_lost", name=here.validator.name))

    def answer(self, name: str, reply: Reply) -> bool:
        """A validator's answer; False when nobody waits for it any more."""
        here = self._here.get(name)
        item = None if here is None else here.items.get(reply.work)
        if here is None or item is None or item.given_s is None or item.answer.done():
            return False
        here.heard_s = self._monotonic_s()
        item.answer.set_result(reply)
        return True

    def may_read(self, name: str, blob: str) -> bool:
        """Whether a validator works on an item that reads this blob."""
        here = self._here.get(name)
        return here is not None and any(
            item.given_s is not None and blob in item.blobs for item in here.items.values()
        )

    def stop(self) -> None:
        """Questions that are held are answered now: the door is about to close."""
        self._stopped = True
        for here in self._here.values():
            here.news.set()

    def send_away(self, names: Collection[str]) -> None:
        """These are not asked any more; what they had is the node's again."""
        for name in names:
            self._here.pop(name, None)
