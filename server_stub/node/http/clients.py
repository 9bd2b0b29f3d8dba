"""The researcher's routes: arrays, jobs, results.

Owns: the translation of these requests into calls of the node; who may see what is asked of
`state.sharing`. Must not: plan, decide, or read an array larger than a small region.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar, cast

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from gpugoblin.errors import GoblinError, NodeError
from gpugoblin.wire.messages.job import ArrayCreate, JobInfo, JobList, JobSubmit
from gpugoblin.wire.messages.sharing import JobShare
from server_stub.node import downloads, intake, leftovers, results, resuming, submission, users
from server_stub.node.certificate import certify
from server_stub.node.http import replies, servers
from server_stub.node.node import Node
from server_stub.node.state import arrays, events, jobs, places, sharing
from server_stub.node.state.arrays import ArrayRow
from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx
from server_stub.node.training.routes import Trainings

__all__ = ["Clients", "application"]

MAX_WAIT_S: Final = 50
VALID_LOOK_S: Final = 2.0
"""How often a request that is held looks whether its user may still ask."""
NO_LONGER_IN: Final = frozenset({"token_revoked", "token_expired", "user_revoked"})
PIECE_BYTES: Final = 4 * 1024 * 1024
NEW_WORK: Final = frozenset({"/v1/arrays", "/v1/jobs", "/v1/trainings"})
"""What a node that is stopping does not begin."""

T = TypeVar("T")
Handler = Callable[[Request, users.User], Awaitable[Response]]


def application(routes: list[BaseRoute]) -> Starlette:
    """A Starlette application with the node's errors."""
    return Starlette(
        routes=routes,
        exception_handlers={
            GoblinError: replies.on_goblin_error,
            HTTPException: replies.on_http_exception,
            Exception: replies.on_surprise,
        },
    )


class Clients:
    """The routes of one node for researchers."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._trainings = Trainings(node)

    def routes(self) -> list[BaseRoute]:
        """Every route, for either door."""
        table: list[tuple[str, str, str, Handler]] = [
            ("POST", "/v1/arrays", "submit", self._create_array),
            ("GET", "/v1/arrays/{array}", "read", self._array),
            ("PUT", "/v1/arrays/{array}/bytes", "submit", self._put_array),
            ("GET", "/v1/arrays/{array}/region", "read", self._region),
            ("POST", "/v1/trainings", "submit", self._trainings.submit),
            ("POST", "/v1/pace", "submit", self._trainings.pace),
            ("GET", "/v1/trainings/{job}", "read", self._trainings.show),
            ("GET", "/v1/trainings/{job}/rounds", "read", self._trainings.rounds),
            ("GET", "/v1/trainings/{job}/weights", "read", self._trainings.weights),
            ("POST", "/v1/jobs", "submit", self._submit),
            ("GET", "/v1/jobs", "read", self._jobs),
            ("GET", "/v1/jobs/{job}/events", "read", self._events),
            ("GET", "/v1/jobs/{job}/summary", "read", self._summary),
            ("GET", "/v1/jobs/{job}/sharing", "read", self._sharing),
            ("POST", "/v1/jobs/{job}/share", "submit", self._share),
            ("POST", "/v1/jobs/{job}/cancel", "submit", self._cancel),
            ("POST", "/v1/jobs/{job}/retry", "submit", self._retry),
            ("GET", "/v1/jobs/{job}/certificate", "read", self._certificate),
            ("GET", "/v1/jobs/{job}/outputs.safetensors", "read", self._outputs),
            ("DELETE", "/v1/jobs/{job:path}", "submit", self._delete),
            ("GET", "/v1/jobs/{job:path}", "read", self._job),
        ]
        made: list[BaseRoute] = []
        for method, path, scope, handler in table:
            made.append(Route(path, self._guarded(scope, handler), methods=[method]))
        return made

    def _guarded(self, scope: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            user = await self._caller(request)
            user.require(scope)
            if self._node.draining and request.url.path in NEW_WORK and request.method == "POST":
                raise NodeError("shutting_down")
            response = await handler(request, user)
            if isinstance(response, StreamingResponse):
                pieces = cast(
                    AsyncGenerator[str | bytes | memoryview, None], response.body_iterator
                )
                response.body_iterator = self._while_valid(user, pieces)
            return response

        return endpoint

    async def _caller(self, request: Request) -> users.User:
        """Who is calling: by the kernel's word on the Unix socket, by a token elsewhere."""
        client = request.scope.get("client")
        if client is not None and client[0] == servers.PEER:
            settings = self._node.settings
            local = users.local_user(
                client[1], all_name_files=settings.socket_files,
                administrators=settings.administrators.split(),
            )  # fmt: skip
            return await self._node.store.read(lambda tx: users.known_here(tx, local))
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise NodeError("not_authenticated")
        now_s = self._node.clock.wall_s()
        user = await self._node.store.read(lambda tx: users.by_token(tx, token.strip(), now_s))
        if user is None:
            raise NodeError("not_authenticated")
        return user

    async def _still(self, user: users.User) -> None:
        """A long request goes on only while what let its user in holds."""
        now_s = self._node.clock.wall_s()
        await self._node.store.read(lambda tx: users.require_valid(tx, user, now_s))

    async def _while_valid(
        self, user: users.User, body: AsyncGenerator[T, None]
    ) -> AsyncGenerator[T, None]:
        """Pieces that come in or go out, until the user may not. Raises as `_still`."""
        async with aclosing(body):
            async for piece in body:
                await self._still(user)
                yield piece

    async def _create_array(self, request: Request, user: users.User) -> Response:
        message = await replies.read_message(request, ArrayCreate)
        row = await intake.create(self._node, user, message)
        return replies.reply(arrays.as_info(row), 201)

    async def _array(self, request: Request, user: users.User) -> Response:
        name = request.path_params["array"]
        row = await self._node.store.read(lambda tx: sharing.array_of(tx, user, name))
        return replies.reply(arrays.as_info(row))

    async def _put_array(self, request: Request, user: users.User) -> Response:
        node, name = self._node, request.path_params["array"]
        offset = replies.integer(request, "offset", 0, 0, 1 << 62)
        row = await node.store.read(lambda tx: arrays.of_owner(tx, user.name, name))
        limit = node.settings.max_upload_bytes
        body = replies.pieces(request, limit, PIECE_BYTES)
        try:
            row = await intake.receive(node, row, offset, self._while_valid(user, body))
        except NodeError as error:
            if error.code in NO_LONGER_IN:
                await intake.drop(node, row)  # nothing half sent stays of who may not go on
            raise
        return replies.reply(arrays.as_info(row))

    async def _region(self, request: Request, user: users.User) -> Response:
        name = request.path_params["array"]
        row = await self._node.store.read(lambda tx: sharing.array_of(tx, user, name))
        start = downloads.indices("start", request.query_params.get("start"))
        stop = downloads.indices("stop", request.query_params.get("stop"))
        return await downloads.region(self._node, row, start, stop)

    async def _submit(self, request: Request, user: users.User) -> Response:
        message = await replies.read_message(request, JobSubmit)
        info = await submission.submit(self._node, user.name, message, local=user.local)
        return replies.reply(info, 200 if info.attached or message.dry_run else 201)

    async def _jobs(self, request: Request, user: users.User) -> Response:
        """The caller's own jobs; with `all=1` every job that the caller may see."""
        everything = replies.integer(request, "all", 0, 0, 1)

        def look(tx: Tx) -> tuple[JobInfo, ...]:
            return sharing.visible(tx, user) if everything else jobs.shown(tx, user.name)

        shown = await self._node.store.read(look)
        return replies.reply(JobList(shown))

    async def _job(self, request: Request, user: users.User) -> Response:
        """Answers at once, or (`wait_s`, `after`) when it has changed, but within 50 s."""
        wait_s = replies.integer(request, "wait_s", 0, 0, MAX_WAIT_S)
        after = replies.integer(request, "after", -1, 0, 1 << 62)
        info = await self._info(request, user)
        ends_s = time.monotonic() + wait_s
        while wait_s and info.state == "running" and info.verified <= after:
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                break
            held_s = min(left_s, VALID_LOOK_S)
            waiting = asyncio.ensure_future(self._node.wait_change(info.job, held_s))
            try:
                # Whatever changed between the look and the wait is seen by this second look.
                info = await self._info(request, user)
                if info.state != "running" or info.verified > after:
                    break
                await waiting
            finally:
                waiting.cancel()
            await self._still(user)
            info = await self._info(request, user)
        return replies.reply(info)

    async def _info(self, request: Request, user: users.User) -> JobInfo:
        name = request.path_params["job"]

        def look(tx: Tx) -> JobInfo:
            return jobs.info(tx, sharing.readable(tx, user, name))

        return _told(await self._node.store.read(look), self._node.trouble)

    async def _job_id(self, request: Request, user: users.User) -> str:
        name = request.path_params["job"]
        return await self._node.store.read(lambda tx: sharing.readable(tx, user, name))

    async def _own_job_id(self, request: Request, user: users.User) -> str:
        """A job that the caller may change."""
        name = request.path_params["job"]
        return await self._node.store.read(lambda tx: sharing.changeable(tx, user, name))

    async def _sharing(self, request: Request, user: users.User) -> Response:
        job = await self._job_id(request, user)
        return replies.reply(await self._node.store.read(lambda tx: sharing.shared(tx, job)))

    async def _share(self, request: Request, user: users.User) -> Response:
        message = await replies.read_message(request, JobShare)
        job = await self._own_job_id(request, user)
        await self._node.handle(
            lambda step: sharing.share(step, job, message.users, lab=message.lab)
        )
        return replies.reply(await self._node.store.read(lambda tx: sharing.shared(tx, job)))

    async def _events(self, request: Request, user: users.User) -> Response:
        after = replies.integer(request, "after", 0, 0, 1 << 62)
        job = await self._job_id(request, user)
        return replies.reply(await self._node.store.read(lambda tx: events.read(tx, job, after)))

    async def _cancel(self, request: Request, user: users.User) -> Response:
        job = await self._own_job_id(request, user)
        await self._node.handle(lambda step: jobs.cancel(step, job))
        return replies.reply(await self._node.store.read(lambda tx: jobs.info(tx, job)))

    async def _summary(self, request: Request, user: users.User) -> Response:
        job = await self._job_id(request, user)
        found = await self._node.summaries.of(job, self._node.clock.wall_s())
        told = _told(found.info, self._node.trouble)
        return replies.reply(msgspec.structs.replace(found, info=told))

    async def _retry(self, request: Request, user: users.User) -> Response:
        job = await self._own_job_id(request, user)
        return replies.reply(await resuming.retry(self._node, job))

    async def _delete(self, request: Request, user: users.User) -> Response:
        job = await self._own_job_id(request, user)
        state = await self._node.store.read(lambda tx: jobs.info(tx, job).state)

        def remove(step: Step) -> tuple[list[ArrayRow], str]:
            rows = jobs.delete(step, job)
            named = [row.final_path for row in rows if row.path not in ("", row.final_path)]
            return rows, places.note(step, named)

        rows, note = await self._node.handle(remove)
        await asyncio.to_thread(results.discard, rows, finished=state == "done")
        await leftovers.forget(self._node, note)
        self._node.planner.forget(job)
        return Response(status_code=204)

    async def _certificate(self, request: Request, user: users.User) -> Response:
        job = await self._job_id(request, user)
        return replies.reply(await certify(self._node, job))

    async def _outputs(self, request: Request, user: users.User) -> Response:
        number = replies.integer(request, "output", 0, 0, 63)
        job = await self._job_id(request, user)
        return await downloads.container(self._node, job, number)


def _told(info: JobInfo, trouble: GoblinError | None) -> JobInfo:
    """A running job waits for what the node waits for, and cannot write down."""
    if trouble is None or info.state != "running" or info.error_code:
        return info
    return msgspec.structs.replace(info, error_code=trouble.code, error_text=str(trouble))
