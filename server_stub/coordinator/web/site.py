"""The routes of the pages, and what every request of a browser passes.

Owns: the order of checks (rate of the network, cookies, session; for a form also size, type,
origin, token), each before the next costs anything; what a refused form shows. Must not: hold a
rule of the domain, or a page's facts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gpugoblin.errors import CoordinatorError, GoblinError, WebError
from server_stub.coordinator.buckets import Rate, take_stored
from server_stub.coordinator.gate import Gate, Service, read_body, status_of
from server_stub.coordinator.handlers import signin
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.web import operators, people, public, research, signing
from server_stub.coordinator.web.languages import LANGUAGES, negotiate
from server_stub.coordinator.web.route import Act, Page, Show
from server_stub.coordinator.web.visit import HEADERS, Visit, go, path_of, render
from server_stub.web import forms, pages

__all__ = ["PAGES", "refused_page", "site_routes"]

_VISITOR_S: Final = 365 * 86_400.0
_ACTS: Final = Rate(1 / 30.0, 120.0)
"""Accepted forms of one account: many write a line of the record, which is kept for good."""

_UNCOUNTED: Final = frozenset(page.act for page in signing.PAGES)
"""Whoever acts too much can still sign out."""

R = TypeVar("R")

_log = logging.getLogger("gpugoblin.coordinator.web")

PAGES: Final[tuple[Page, ...]] = (
    *public.PAGES, *signing.PAGES, *people.PAGES, *research.PAGES, *operators.PAGES,
)  # fmt: skip
"""Every page with its address and who may see it."""


def site_routes(service: Service, gate: Gate) -> list[BaseRoute]:
    """The routes of all pages, of the language switch and of the style sheet."""
    site = _Site(service, gate)
    routes: list[BaseRoute] = [
        Route(page.path, site.endpoint(page), methods=["GET", "POST"] if page.act else ["GET"])
        for page in PAGES
    ]
    routes.append(Route("/language", site.language, methods=["POST"]))
    file = pages.files(pages.STATIC)

    async def static(request: Request) -> Response:
        gate.admit(request)
        return await file(request)

    routes.append(Route("/static/{name}", site.guarded(static), methods=["GET"]))
    return routes


class _Site:
    """The endpoints of the pages of one coordinator."""

    def __init__(self, service: Service, gate: Gate) -> None:
        self._service = service
        self._gate = gate

    def endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            visit = await self._visit(request)
            refusal = self._refusal(page, visit)
            if refusal is not None:
                return refusal
            if request.method == "POST" and page.act is not None:
                response = await self._posted(page.act, page.show, visit)
            else:
                response = await page.show(self._service, visit)
            if forms.VISITOR not in request.cookies:
                forms.set_cookie(response, forms.VISITOR, visit.visitor, _VISITOR_S)
            return response

        return self.guarded(answer)

    async def language(self, request: Request) -> Response:
        async def answer(request: Request) -> Response:
            visit = await self._visit(request)
            fields = await self._fields(visit)
            place = fields.get("place", "/")
            response = go(place if place.startswith("/") and place[1:2] not in "/\\" else "/")
            if fields.get("language") in LANGUAGES:
                forms.set_cookie(response, forms.LANGUAGE, fields["language"], _VISITOR_S)
            return response

        return await self.guarded(answer)(request)

    async def _visit(self, request: Request) -> Visit:
        address, now_s = self._gate.admit(request)
        house = self._service.house
        session = request.cookies.get(forms.SESSION, "")
        person = None
        if session:
            person = await self._service.transact(
                lambda tx: signin.person_of(house, tx, now_s, session)
            )
        if person is None:
            session = ""
        visitor = request.cookies.get(forms.VISITOR, "")[:64] or forms.fresh_visitor()
        language = request.cookies.get(forms.LANGUAGE, "")
        if language not in LANGUAGES:
            language = (
                person.language
                if person is not None
                else negotiate(request.headers.get("Accept-Language", ""))
            )
        token = forms.token_of(house.pseudonym_key, visitor, session)
        return Visit(request, now_s, address, person, session, visitor, token, language)

    def _refusal(self, page: Page, visit: Visit) -> Response | None:
        """What somebody sees who may not see the page; None when they may."""
        if page.who == "anyone" or (visit.person is not None and page.who == "person"):
            return None
        if visit.person is None:
            return go("/signin")
        if visit.person.is_operator:
            return None
        # The same as for a page that does not exist: nobody learns what operators have.
        return _missing(visit)

    async def _posted(self, act: Act, show: Show, visit: Visit) -> Response:
        try:
            visit.given = await self._fields(visit)
            return await act(_signed(self._service, visit, act), visit)
        except GoblinError as error:
            visit.error = error
            response = await show(self._service, visit)
            response.status_code = status_of(error)
            return response

    async def _fields(self, visit: Visit) -> dict[str, str]:
        """The fields of a form that we made for this browser."""
        request = visit.request
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise WebError("form_malformed")
        forms.check_origin(request, self._service.house.settings.public_url)
        body = await read_body(request, "form", forms.MAX_FORM_BYTES, self._service)
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
                response = refused_page(request, error, status_of(error))
            except HTTPException:
                raise
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception:  # the edge of the process: the sender learns nothing of our insides
                _log.exception("%s %r failed", request.method, path_of(request))
                response = refused_page(request, CoordinatorError("coordinator_internal"), 500)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return endpoint


class _SignedService(Service):
    """A service whose transactions first look whether their sender may still act.

    The session was read in a transaction of its own: between that and this one, another request may
    have deleted the account, ended the session, or taken the operator's role or the name away.
    """

    __slots__ = ("_is_counted", "_visit")

    def __init__(self, service: Service, visit: Visit, act: Act) -> None:
        Service.__init__(
            self, service.house, service.store, service.clock, service.rng, service.version,
            service.kept,
        )  # fmt: skip
        self._visit = visit
        self._is_counted = act not in _UNCOUNTED

    async def transact(self, work: Callable[[Transaction], R]) -> R:
        visit = self._visit

        def checked(tx: Transaction) -> R:
            person = visit.person
            if person is not None and not signin.is_still(tx, visit.session, person):
                raise WebError("form_foreign")
            if person is not None and not person.is_operator and self._is_counted:
                refused_s = take_stored(tx, visit.now_s, "act", person.account, _ACTS, 1.0)
                if refused_s:
                    raise CoordinatorError(
                        "coordinator_rate_limited", scope="account", wait_s=refused_s
                    )
            return work(tx)

        return await Service.transact(self, checked)


def _signed(service: Service, visit: Visit, act: Act) -> Service:
    return service if visit.person is None else _SignedService(service, visit, act)


def refused_page(request: Request, error: GoblinError, status: int) -> Response:
    """A page that says what went wrong, for a browser of which nothing else is known."""
    language = request.cookies.get(forms.LANGUAGE, "")
    if language not in LANGUAGES:
        language = negotiate(request.headers.get("Accept-Language", ""))
    visit = Visit(request, 0.0, "", None, "", "", "", language, error=error)
    response = render(visit, "refused.html", status)
    response.headers.update(HEADERS)
    return response


def _missing(visit: Visit) -> Response:
    visit.error = CoordinatorError(
        "coordinator_route_unknown",
        method=visit.request.method[:16],
        path=path_of(visit.request)[:200],
    )
    return render(visit, "refused.html", 404)
