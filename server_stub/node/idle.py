"""Whether anybody uses the node: for nodes that end by themselves.

Owns: the count of requests in flight and the moment of the last one. Must not: end anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gpugoblin.clock import Clock
from server_stub.node.store.protocol import Tx

__all__ = ["IdleWatch", "has_unfinished_jobs"]

LOOK_PERIOD_S: Final = 60.0


def has_unfinished_jobs(tx: Tx) -> bool:
    """True while a job runs, or waits for something."""
    return tx.one("select 1 from job where state = 'running' limit 1") is not None


class IdleWatch:
    """Watches the doors of one node.

    Args:
        limit_s: how long nobody may ask anything; 0: for ever.
    """

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._in_flight = 0
        self._last_s = clock.monotonic_s()

    def front(self, app: ASGIApp) -> ASGIApp:
        """An application that does what `app` does, and is watched."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            self._in_flight += 1
            try:
                await app(scope, receive, send)
            finally:
                self._in_flight -= 1
                self._last_s = self._clock.monotonic_s()

        return watched

    def left_s(self) -> float:
        """Until the node counts as idle, if nothing happens; the whole limit during a request."""
        if self._in_flight:
            return self._limit_s
        return self._limit_s - (self._clock.monotonic_s() - self._last_s)

    async def until_idle(
        self,
        has_work: Callable[[], Awaitable[bool]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Returns when nobody asked anything for the limit and there is no work; else never.

        Args:
            has_work: asked when nobody asks; work counts as use.
        """
        if not self._limit_s:
            await asyncio.Event().wait()
        while True:
            left_s = self.left_s()
            if left_s > 0:
                await sleep(min(left_s, LOOK_PERIOD_S))
            elif await has_work():
                self._last_s = self._clock.monotonic_s()
            elif self.left_s() <= 0:  # nobody has come meanwhile
                return
