"""The coordinator's HTTP face: bounded bodies, checked signatures, handlers in transactions.

Owns: the routes and the order of checks (rate of the network, size, signature, rate of the key,
form, nonce, handler), each before the next costs anything. Must not: hold a rule of the domain.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gpugoblin.errors import CoordinatorError, GoblinError
from gpugoblin.ids import LabId
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.account import Machines
from gpugoblin.wire.messages.contact import Contact, ContactReply, Demand
from gpugoblin.wire.messages.enrol import EnrolCode, EnrolMail, EnrolPoll, EnrolStart
from gpugoblin.wire.messages.probe import Probe, ProbeReply
from gpugoblin.wire.messages.receipt import ReceiptBatch
from server_stub.coordinator import only_tls, probing
from server_stub.coordinator.gate import Gate, Refusal, Service, read_body, status_of
from server_stub.coordinator.handlers import enrol, enrol_mail, node, operator, own_machines
from server_stub.coordinator.handlers.common import use_nonce
from server_stub.coordinator.handlers.contact import (
    MAX_TOGETHER,
    Asked,
    contact,
    signed_contacts,
)
from server_stub.coordinator.handlers.signin import tag_of
from server_stub.coordinator.house import Caller, House
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.together import Together
from server_stub.coordinator.watch import CountingApp, watch_routes
from server_stub.coordinator.web.site import refused_page, site_routes
from server_stub.coordinator.web.visit import path_of
from server_stub.web.rates import RequestBuckets

__all__ = ["MESSAGE_ROUTES", "make_app"]

R = TypeVar("R")
Handler = Callable[[House, Transaction, float, random.Random, Caller, Any], R | CoordinatorError]
"""Answers in a transaction. A refusal that is raised undoes it; one that is returned does not."""

_log = logging.getLogger("gpugoblin.coordinator")

MESSAGE_ROUTES: Final[dict[str, tuple[type[msgspec.Struct], Handler[msgspec.Struct]]]] = {
    "/v1/enrol/start": (EnrolStart, enrol.start),
    "/v1/enrol/poll": (EnrolPoll, enrol.poll),
    "/v1/enrol/mail": (EnrolMail, enrol_mail.mail),
    "/v1/enrol/code": (EnrolCode, enrol_mail.code),
    "/v1/contact": (Contact, contact),
    "/v1/account/machines": (Machines, own_machines.machines),
    "/v1/node/demand": (Demand, node.demand),
    "/v1/node/receipts": (ReceiptBatch, node.receipts),
}
"""Path, message and handler of every POST. Contacts that wait are answered together."""

_RETRY_AFTER_S: Final = 30
STATUS_CACHE_S: Final = 5.0
"""The status page counts rows, so it is asked of the database only so often."""


def make_app(service: Service) -> Starlette:
    """The ASGI application."""
    gate = Gate(service)
    counts: Counter[str] = Counter()
    routes = [
        Route(path, _message_endpoint(gate, struct, handler), methods=["POST"])
        for path, (struct, handler) in MESSAGE_ROUTES.items()
        if handler is not contact
    ]
    routes.append(Route("/v1/contact", _contact_endpoint(gate), methods=["POST"]))
    routes.append(Route("/v1/node/revocations", _revocations_endpoint(gate), methods=["GET"]))
    routes.append(Route("/v1/node/probe", _probe_endpoint(gate), methods=["POST"]))
    routes.append(Route("/v1/status", _status_endpoint(gate), methods=["GET"]))
    layers: list[Middleware] = [Middleware(CountingApp, counts)]
    if said := only_tls.words(service.house.settings):
        layers.append(Middleware(only_tls.OnlyTlsApp, said))
    return Starlette(
        routes=[*routes, *watch_routes(service, counts), *site_routes(service, gate)],
        middleware=layers,
        exception_handlers={HTTPException: _unknown_route},
    )


Endpoint = Callable[[Request], Awaitable[Response]]


def _message_endpoint(
    gate: Gate, struct: type[msgspec.Struct], handler: Handler[msgspec.Struct]
) -> Endpoint:
    limit = message_type(struct).max_bytes

    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        body = await read_body(request, message_type(struct).key, limit, gate.service)
        caller = gate.check(request, body, address, now_s)
        message = decode(struct, body)
        try:
            reply = await _handled(gate.service, handler, now_s, caller, message)
        except GoblinError as refusal:
            _log_sign_in(message, refusal.code)
            raise
        _log_sign_in(message, "")
        return encode(reply)

    return _guarded(answer)


def _log_sign_in(message: msgspec.Struct, refused: str) -> None:
    """An owner who signs in at a device is in the log as one who signs in at the pages."""
    if isinstance(message, EnrolCode):
        how = logging.WARNING if refused else logging.INFO
        said = f"refused, {refused}" if refused else "a device"
        _log.log(how, "sign-in: %s [%s]", said, tag_of(message.ask))


def _contact_endpoint(gate: Gate) -> Endpoint:
    service = gate.service
    kind = message_type(Contact)

    async def answering(asked: Sequence[Asked]) -> list[ContactReply | GoblinError]:
        now_s = service.clock.wall_s()
        return await service.transact(
            lambda tx: signed_contacts(service.house, tx, now_s, service.rng, asked)
        )

    together: Together[Asked, ContactReply] = Together(answering, MAX_TOGETHER)

    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        body = await read_body(request, kind.key, kind.max_bytes, service)
        caller = gate.check(request, body, address, now_s)
        return encode(await together.ask(Asked(caller, decode(Contact, body))))

    return _guarded(answer)


def _revocations_endpoint(gate: Gate) -> Endpoint:
    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        caller = gate.check(request, b"", address, now_s)
        lab = LabId(request.query_params.get("lab", "").replace("\0", "\ufffd"))
        return encode(await _handled(gate.service, node.revocations, now_s, caller, lab))

    return _guarded(answer)


def _probe_endpoint(gate: Gate) -> Endpoint:
    """A look at a lab, for its own node alone, bounded a lab and in all."""
    buckets = RequestBuckets(probing.RATE)
    room = asyncio.Semaphore(probing.AT_ONCE)
    service = gate.service

    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        kind = message_type(Probe)
        body = await read_body(request, kind.key, kind.max_bytes, service)
        caller = gate.check(request, body, address, now_s)
        question = decode(Probe, body)
        lab = await _handled(service, node.registered, now_s, caller, question)
        refused_s = buckets.take(lab.lab, service.clock.monotonic_s())
        if refused_s:
            raise CoordinatorError("coordinator_rate_limited", scope="lab", wait_s=refused_s)
        async with room:
            seen = await probing.look(lab.address, lab.certificate_sha256, address)
        return encode(ProbeReply(
            lab.lab, lab.address, seen.outcome, seen.took_s, service.clock.wall_s(),
            service.house.public_key, lab.certificate_sha256,
        ))  # fmt: skip

    return _guarded(answer)


def _status_endpoint(gate: Gate) -> Endpoint:
    service = gate.service
    cached: list[tuple[float, bytes]] = []

    async def answer(request: Request) -> bytes:
        _, now_s = gate.admit(request)
        tick_s = service.clock.monotonic_s()
        if not cached or tick_s - cached[0][0] > STATUS_CACHE_S:
            found = await service.transact(
                lambda tx: operator.status(tx, now_s, service.version, service.house.public_key)
            )
            cached[:] = [(tick_s, msgspec.json.encode(found))]
        return cached[0][1]

    return _guarded(answer)


async def _handled(
    service: Service, handler: Handler[R], now_s: float, caller: Caller, message: object
) -> R:
    """The handler's reply. A refusal undoes what the handler did, but not the use of the nonce."""

    def work(tx: Transaction) -> R | GoblinError:
        use_nonce(tx, now_s, caller)
        try:
            with tx.nested():
                return handler(service.house, tx, now_s, service.rng, caller, message)
        except GoblinError as refusal:
            return refusal

    reply = await service.transact(work)
    if isinstance(reply, GoblinError):
        raise reply
    return reply


def _guarded(answer: Callable[[Request], Awaitable[bytes]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            return Response(await answer(request), media_type="application/json")
        except GoblinError as error:
            return _error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:  # the edge of the process: the sender learns nothing of our insides
            _log.exception("%s %r failed", request.method, path_of(request))
            return _error_response(CoordinatorError("coordinator_internal"))

    return endpoint


async def _unknown_route(request: Request, error: Exception) -> Response:
    refusal = CoordinatorError(
        "coordinator_route_unknown", method=request.method[:16], path=path_of(request)[:200]
    )
    status = error.status_code if isinstance(error, HTTPException) else 404
    if "text/html" in request.headers.get("Accept", ""):
        return refused_page(request, refusal, status)
    # With 405 the methods that there are (RFC 9110, section 15.5.6).
    return _error_response(refusal, status, getattr(error, "headers", None))


def _error_response(
    error: GoblinError, status: int | None = None, others: Mapping[str, str] | None = None
) -> Response:
    status = status_of(error) if status is None else status
    fields = {
        name: value if isinstance(value, (int, float, str)) else str(value)
        for name, value in error.fields.items()
    }
    body = Refusal(error.code, error.what, error.next_step, fields)
    headers = dict(others or {})
    if status in (429, 503):
        headers["Retry-After"] = str(int(float(str(error.fields.get("wait_s", _RETRY_AFTER_S)))))
    if status in (408, 413):
        headers["Connection"] = "close"  # what is still to come of the body is not read
    return Response(
        msgspec.json.encode(body), status, headers=headers, media_type="application/json"
    )
