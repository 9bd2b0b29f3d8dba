"""What watches a server asks: does it live, can it work, how much does it do.

Owns: `/health`, `/ready` and `/metrics`, and the counting of answers. Must not: show anything of a
person, an account, a device or a lab but how many there are; cost more when asked more often.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gpugoblin.errors import GoblinError
from server_stub.coordinator.gate import Service
from server_stub.coordinator.handlers import operator
from server_stub.exposition import FORM, CountingApp, Exposition, labelled

__all__ = ["CountingApp", "text_of", "watch_routes"]

KEPT_S: Final = 5.0
"""The database is asked only so often, however often we are."""

PATIENCE_S: Final = 5.0
"""A server whose database does not answer for so long is not ready."""

_FIGURES: Final = (
    ("accounts", "gauge", "Accounts."),
    ("devices", "gauge", "Devices that are not revoked."),
    ("labs", "gauge", "Registered labs."),
    ("grants", "gauge", "Grants that are valid now."),
    ("receipts", "counter", "Receipts that were booked."),
    ("units", "gauge", "Verified work, in units."),
    ("schema", "gauge", "Version of the database's schema."),
)


def watch_routes(service: Service, counts: Counter[str]) -> list[Route]:
    """The three routes. None is limited in rate: what they show is kept for some seconds."""
    watch = _Watch(service)

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        found = await watch.look()
        return PlainTextResponse("ready\n" if found else "not ready\n", 200 if found else 503)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(text_of(await watch.look(), counts), media_type=FORM)

    shown: dict[str, Callable[[Request], Awaitable[Response]]] = {
        "/health": health,
        "/ready": ready,
        "/metrics": metrics,
    }
    return [Route(path, endpoint, methods=["GET"]) for path, endpoint in shown.items()]


def text_of(found: operator.Status | None, counts: Counter[str]) -> str:
    """The figures in the text form of Prometheus; those of the database only when it answers."""
    made = Exposition("gpugoblin")
    made.add("database_up", "gauge", "Whether the database answers.", int(found is not None))
    made.add("cpu_seconds", "counter", "CPU time of this process.", time.process_time())
    answers = labelled("status", counts)
    made.add("answers", "counter", "Answers of this process by kind of status.", answers)
    for name, kind, meaning in _FIGURES if found is not None else ():
        made.add(name, kind, meaning, getattr(found, name))
    return made.text()


class _Watch:
    """What the database said last, asked by one at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._kept: tuple[float, operator.Status | None] | None = None

    async def look(self) -> operator.Status | None:
        """The counts, or None when the database does not answer."""
        async with self._lock:
            tick_s = self._service.clock.monotonic_s()
            if self._kept is None or tick_s - self._kept[0] > KEPT_S:
                self._kept = (tick_s, await self._ask())
            return self._kept[1]

    async def _ask(self) -> operator.Status | None:
        service = self._service

        def work(tx: Any) -> operator.Status:
            now_s = service.clock.wall_s()
            return operator.status(tx, now_s, service.version, service.house.public_key)

        try:
            async with asyncio.timeout(PATIENCE_S):
                return await service.transact(work)
        except (GoblinError, TimeoutError):
            return None
