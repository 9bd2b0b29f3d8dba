"""The routes of the node's pages, and what stands before each of them.

Owns: the order of checks (rate of the network, session, size and form, origin, token, scope), each
made in one place for all pages. Must not: know a page's facts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gpugoblin.errors import GoblinError, NodeError, WebError
from gpugoblin.hashing import digest
from server_stub.node import users
from server_stub.node.http import replies
from server_stub.node.node import Node
from server_stub.node.store.protocol import Tx
from server_stub.node.web import jobs, overview, sessions, signing
from server_stub.node.web.visit import HERE, Page, Visit, render
from server_stub.web import forms, pages
from server_stub.web.rates import Rate, RequestBuckets, network_prefix

__all__ = ["PAGES", "site_routes"]

PAGES: Final[tuple[Page, ...]] = (*signing.PAGES, *jobs.PAGES, *overview.PAGES)
FORM_S: Final = 10.0
_REQUESTS: Final = Rate(20.0, 200.0)
_SIGNINS: Final = Rate(1 / 6.0, 10.0)
_VISITOR_S: Final = 365 * 86_400.0
_STATUS: Final = {"form_malformed": 400, "form_foreign": 403, "signin_refused": 403,
                  "signin_crowded": 429}  # fmt: skip
_HEADERS: Final = pages.headers(scripts=True)

log = logging.getLogger("gpugoblin.node.web")


def site_routes(node: Node) -> list[BaseRoute]:
    """The routes of all pages and of their files."""
    site = _Site(node)
    routes: list[BaseRoute] = [
        Route(page.path, site.endpoint(page), methods=["GET", "POST"] if page.act else ["GET"])
        for page in PAGES
    ]
    file = pages.files(pages.STATIC, HERE / "static")

    async def static(request: Request) -> Response:
        site.admit(request)
        return await file(request)

    routes.append(Route("/static/{name}", site.guarded(static), methods=["GET"]))
    return routes


class _Site:
    """The endpoints of the pages of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._requests = RequestBuckets(_REQUESTS)
        self._signins = RequestBuckets(_SIGNINS)
        self._key = bytes.fromhex(
            digest("gpugoblin 2026-12 node forms", node.key.private_bytes_raw())
        )

    def admit(self, request: Request) -> None:
        """Raises WebError `signin_crowded` when the sender's network asks too much."""
        self._take(self._requests, request)

    def _take(self, buckets: RequestBuckets, request: Request) -> None:
        address = request.client.host if request.client is not None else ""
        wait_s = buckets.take(network_prefix(address), self._node.clock.monotonic_s())
        if wait_s:
            raise WebError("signin_crowded", wait_s=round(wait_s))

    def endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self.admit(request)
            visit = await self._visit(request)
            if visit.user is None and not page.open:
                return _signin(visit)
            if request.method == "POST" and page.act is not None:
                response = await self._posted(page, visit)
            else:
                response = await page.show(self._node, visit)
            if signing.VISITOR not in request.cookies:
                forms.set_cookie(response, signing.VISITOR, visit.visitor, _VISITOR_S, "strict")
            return response

        return self.guarded(answer)

    async def _visit(self, request: Request) -> Visit:
        now_s = self._node.clock.wall_s()
        session = request.cookies.get(signing.SESSION, "")
        user: users.User | None = None
        if session:

            def look(tx: Tx) -> users.User | None:
                token = sessions.token_of(tx, now_s, session)
                return None if token is None else signing.user_of(tx, token, now_s)

            user = await self._node.store.read(look)
        if user is None:
            session = ""
        visitor = request.cookies.get(signing.VISITOR, "")[:64] or forms.fresh_visitor()
        token = forms.token_of(self._key, visitor, session)
        return Visit(request, now_s, user, session, visitor, token)

    async def _posted(self, page: Page, visit: Visit) -> Response:
        try:
            visit.given = await self._fields(visit)
            if page.path == signing.PATH:
                self._take(self._signins, visit.request)
            assert page.act is not None  # noqa: S101 - the caller has looked
            return await page.act(self._node, visit)
        except GoblinError as error:
            visit.error = error
            response = await page.show(self._node, visit)
            response.status_code = _status(error)
            return response

    async def _fields(self, visit: Visit) -> dict[str, str]:
        """The fields of a form that we made for this browser."""
        request = visit.request
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise WebError("form_malformed")
        forms.check_origin(request, "")
        try:
            async with asyncio.timeout(FORM_S):
                body = await replies.read_body(request, forms.MAX_FORM_BYTES)
        except TimeoutError as cause:
            raise WebError("form_malformed") from cause
        fields = forms.parse_form(body)
        forms.check_token(fields.pop("token", ""), visit.token)
        return fields

    def guarded(
        self, answer: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                response = await answer(request)
            except GoblinError as error:
                response = _refused(request, error, _status(error))
            except HTTPException:
                response = _refused(
                    request, NodeError("not_found", path=pages.path_of(request)[:200]), 404
                )
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception as error:  # the edge of the process: the sender learns nothing
                log.exception("%s %r failed", request.method, pages.path_of(request))
                response = _refused(request, NodeError("internal", kind=type(error).__name__), 500)
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return endpoint


def _status(error: GoblinError) -> int:
    return _STATUS.get(error.code) or replies.status_of(error)


def _signin(visit: Visit) -> Response:
    """To the page to sign in. A strict cookie does not come along a link from elsewhere: such a
    visit is sent here once more by ourselves, and then it does."""
    request = visit.request
    if request.method == "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site":
        return render(visit, "again.html")
    return pages.go(signing.PATH)


def _refused(request: Request, error: GoblinError, status: int) -> Response:
    """A page that says what went wrong, for a browser of which nothing else is known."""
    visit = Visit(request, 0.0, None, "", "", "", error=error)
    response = render(visit, "refused.html", status)
    if status == 429:
        response.headers["Retry-After"] = str(error.fields.get("wait_s", 1))
    return response
