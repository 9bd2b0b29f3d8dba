"""What watches a node asks: does it live, can it work, how much does it do.

Owns: `/v1/health`, `/v1/ready`, `/v1/metrics`, and who may read the last. Must not: show the name
of a job, a user, a device or a file, or a number of a computation; cost more when asked more often.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from gpugoblin.blobs.files import free_bytes
from gpugoblin.errors import GoblinError, NodeError
from server_stub.exposition import FORM, Exposition, labelled
from server_stub.node.http import replies, servers
from server_stub.node.node import Node
from server_stub.node.store.protocol import Tx

__all__ = ["Counts", "Watch", "count"]

KEPT_S: Final = 5.0
"""The database is asked only so often, however often we are."""

PATIENCE_S: Final = 5.0
"""A node whose database does not answer for so long is not ready."""

ACTIVE_S: Final = 900.0

_FIGURES: Final = (
    ("blobs", "Blobs that are kept."),
    ("blob_bytes", "Their bytes."),
    ("leases", "Leases that a device or the node's own engine works on."),
    ("devices", "Devices that were here within 15 minutes."),
    ("receipts_waiting", "Receipts that the coordinator has not taken yet."),
    ("users", "Users with a token that holds."),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the database says."""

    jobs: dict[str, int]
    tasks: dict[str, int]
    blobs: int
    blob_bytes: int
    leases: int
    devices: int
    receipts_waiting: int
    users: int


def count(tx: Tx, now_s: float) -> Counts:
    """The counts of one moment."""

    def one(statement: str, *parameters: float) -> int:
        row = tx.one(statement, parameters)
        return 0 if row is None else int(row[0])

    return Counts(
        jobs=dict(tx.rows("select state, count(*) from job group by state")),
        tasks=dict(tx.rows(
            "select state, count(*) from task where state not in ('used', 'cancelled', 'failed')"
            " group by state"
        )),
        blobs=one("select count(*) from blob where refs > 0"),
        blob_bytes=one("select coalesce(sum(nbytes), 0) from blob where refs > 0"),
        leases=one("select count(*) from lease where state in ('issued', 'committed')"),
        devices=one("select count(*) from device where seen_s > ?", now_s - ACTIVE_S),
        receipts_waiting=one("select count(*) from outbox where sent_s is null"),
        users=one(
            "select count(distinct user_id) from token where revoked_s is null"
            " and (expires_s is null or expires_s > ?)",
            now_s,
        ),
    )  # fmt: skip


class Watch:
    """The three routes of one node. `health` says what anybody may know."""

    def __init__(
        self, node: Node, health: Callable[[], dict[str, Any]], answers: Counter[str]
    ) -> None:
        self._node = node
        self._health = health
        self._answers = answers
        self._lock = asyncio.Lock()
        self._kept: tuple[float, Counts | None] | None = None

    def routes(self, *, open_metrics: bool = False) -> list[BaseRoute]:
        """For a door. `open_metrics`: whoever reaches it may read the figures."""

        async def metrics(request: Request) -> Response:
            if not open_metrics:
                self._require_reader(request)
            return await self._metrics()

        return [
            Route("/v1/health", self._get_health, methods=["GET"]),
            Route("/v1/ready", self._ready, methods=["GET"]),
            Route("/v1/metrics", metrics, methods=["GET"]),
        ]

    def _require_reader(self, request: Request) -> None:
        """The Unix socket is open to whom its directory lets in; HTTPS asks for the token."""
        client = request.scope.get("client")
        if client is not None and client[0] == servers.PEER:
            return
        token = str(self._node.settings.metrics_token)
        if not token:
            raise NodeError("not_found", path="/v1/metrics")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), token.encode())
        if scheme.lower() != "bearer" or not right:
            raise NodeError("not_authenticated")

    async def _get_health(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self._health()), media_type=replies.JSON)

    async def _ready(self, request: Request) -> Response:
        reason = await self.reason()
        if reason:
            return PlainTextResponse(f"not ready: {reason}\n", 503)
        return PlainTextResponse("ready\n")

    async def reason(self) -> str:
        """The code of what keeps the node from working; empty when nothing does."""
        node = self._node
        if node.draining:
            return "shutting_down"
        if not node.in_place():
            return "state_dir_moved"
        if node.trouble is not None:
            return node.trouble.code
        return "" if await self._look() is not None else "database_failed"

    async def _look(self) -> Counts | None:
        async with self._lock:
            tick_s = self._node.clock.monotonic_s()
            if self._kept is None or tick_s - self._kept[0] > KEPT_S:
                self._kept = (tick_s, await self._ask())
            return self._kept[1]

    async def _ask(self) -> Counts | None:
        now_s = self._node.clock.wall_s()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._node.store.read(lambda tx: count(tx, now_s))
        except (GoblinError, TimeoutError):
            return None

    async def _metrics(self) -> Response:
        node, found = self._node, await self._look()
        made = Exposition("gpugoblin_node")
        ready = not await self.reason()
        made.add("ready", "gauge", "Whether the node can work (/v1/ready).", int(ready))
        made.add("database_up", "gauge", "Whether the database answers.", int(found is not None))
        made.add("cpu_seconds", "counter", "CPU time of the service's process, without its"
                 " workers.", time.process_time())  # fmt: skip
        answers = labelled("status", self._answers)
        made.add("answers", "counter", "Answers by kind of status.", answers)
        made.add("work_items", "gauge", "Items that the workers have or wait for.", node.work.busy)
        waited_s = node.work.validator_wait_s()
        made.add("validator_wait_seconds", "gauge", "Age of the oldest item that waits for the"
                 " validator.", waited_s)  # fmt: skip
        free = await asyncio.to_thread(free_bytes, node.settings.state)
        made.add("disk_free_bytes", "gauge", "Free on the state directory's disk.", free)
        if found is not None:
            made.add("jobs", "gauge", "Jobs by state.", labelled("state", found.jobs))
            tasks = labelled("state", found.tasks)
            made.add("tasks", "gauge", "Tasks that are not done, by state.", tasks)
            for name, meaning in _FIGURES:
                made.add(name, "gauge", meaning, getattr(found, name))
        return PlainTextResponse(made.text(), media_type=FORM)
