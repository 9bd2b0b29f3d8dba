"""The coordinator's HTTP face: bounded bodies, checked signatures, handlers in transactions.

Owns: the routes and the order of checks (rate of the network, size, signature, rate of the key,
form, nonce, handler), each before the next costs anything. Must not: hold a rule of the domain.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gpugoblin.clock import Clock
from gpugoblin.errors import CoordinatorError, GoblinError, WireError
from gpugoblin.ids import LabId
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.contact import Contact, Demand
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolStart
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import check_request
from server_stub.coordinator.buckets import Rate, RequestBuckets
from server_stub.coordinator.handlers import contact, enrol, node, operator
from server_stub.coordinator.handlers.common import use_nonce
from server_stub.coordinator.house import Caller, House
from server_stub.coordinator.pseudonyms import network_prefix
from server_stub.coordinator.store import Store, Transaction

__all__ = ["MESSAGE_ROUTES", "Service", "make_app", "status_of"]

R = TypeVar("R")
Handler = Callable[[House, Transaction, float, random.Random, Caller, Any], R]

_log = logging.getLogger("gpugoblin.coordinator")

MESSAGE_ROUTES: Final[dict[str, tuple[type[msgspec.Struct], Handler[msgspec.Struct]]]] = {
    "/v1/enrol/start": (EnrolStart, enrol.start),
    "/v1/enrol/poll": (EnrolPoll, enrol.poll),
    "/v1/contact": (Contact, contact.contact),
    "/v1/node/demand": (Demand, node.demand),
    "/v1/node/receipts": (ReceiptBatch, node.receipts),
}
"""Path, message and handler of every POST."""

_STATUS: Final = {
    "message_too_large": 413,
    "message_malformed": 400,
    "signature_missing": 401,
    "signature_malformed": 401,
    "signature_clock_wrong": 401,
    "signature_wrong": 401,
    "signature_replayed": 409,
    "coordinator_rate_limited": 429,
    "coordinator_request_slow": 408,
    "coordinator_route_unknown": 404,
    "coordinator_lab_unknown": 403,
    "device_unknown": 403,
    "device_revoked": 403,
    "enrolment_unknown": 404,
    "enrolment_crowded": 503,
    "coordinator_database_busy": 503,
    "coordinator_database_full": 503,
    "coordinator_database_damaged": 503,
    "coordinator_stopping": 503,
}
_RETRY_AFTER_S: Final = 30
STATUS_CACHE_S: Final = 5.0
"""The status page counts rows, so it is asked of the database only so often."""


@dataclass(slots=True)
class Service:
    """One coordinator behind its routes.

    Args:
        rng: draws ids, codes and jitter: `random.SystemRandom()` outside tests.
    """

    house: House
    store: Store
    clock: Clock
    rng: random.Random
    version: str

    async def transact(self, work: Callable[[Transaction], R]) -> R:
        """Runs work in a transaction; returns once it is on disk."""
        return await asyncio.wrap_future(self.store.submit(work))


def make_app(service: Service) -> Starlette:
    """The ASGI application."""
    gate = _Gate(service)
    routes = [
        Route(path, _message_endpoint(gate, struct, handler), methods=["POST"])
        for path, (struct, handler) in MESSAGE_ROUTES.items()
    ]
    routes.append(Route("/v1/node/revocations", _revocations_endpoint(gate), methods=["GET"]))
    routes.append(Route("/v1/status", _status_endpoint(gate), methods=["GET"]))
    return Starlette(routes=routes, exception_handlers={HTTPException: _unknown_route})


def status_of(error: GoblinError) -> int:
    """The HTTP status of an error."""
    return _STATUS.get(error.code, 409 if isinstance(error, CoordinatorError) else 400)


Endpoint = Callable[[Request], Awaitable[Response]]


class _Gate:
    """What every request passes before a handler sees it."""

    def __init__(self, service: Service) -> None:
        settings = service.house.settings
        self.service = service
        self._proxies = frozenset(settings.trusted_proxies)
        self._networks = RequestBuckets(Rate(settings.requests_per_s, settings.requests_burst))
        self._keys = RequestBuckets(Rate(settings.key_requests_per_s, settings.key_requests_burst))

    def admit(self, request: Request) -> tuple[str, float]:
        """The sender's address and the time, unless its network sends too much."""
        address = request.client.host if request.client is not None else ""
        if address in self._proxies:
            forwarded = request.headers.get("X-Forwarded-For", "")
            address = forwarded.rpartition(",")[2].strip() or address
        now_s = self.service.clock.wall_s()
        self._take(self._networks, network_prefix(address), "network")
        return address, now_s

    def check(self, request: Request, body: bytes, address: str, now_s: float) -> Caller:
        """Who signed the request, unless that key sends too much."""
        path = request.scope["raw_path"].decode("latin-1")
        query = request.scope["query_string"].decode("latin-1")
        target = f"{path}?{query}" if query else path
        signed = check_request(request.headers, request.method, target, body, now_s)
        self._take(self._keys, signed.public_key.hex(), "key")
        return Caller(signed.public_key, signed.nonce, signed.until_s, address)

    def _take(self, buckets: RequestBuckets, subject: str, scope: str) -> None:
        refused_s = buckets.take(subject, self.service.clock.monotonic_s())
        if refused_s:
            raise CoordinatorError("coordinator_rate_limited", scope=scope, wait_s=refused_s)


def _message_endpoint(
    gate: _Gate, struct: type[msgspec.Struct], handler: Handler[msgspec.Struct]
) -> Endpoint:
    limit = message_type(struct).max_bytes

    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        body = await _read_body(request, message_type(struct).key, limit, gate.service)
        caller = gate.check(request, body, address, now_s)
        message = decode(struct, body)
        return encode(await _handled(gate.service, handler, now_s, caller, message))

    return _guarded(answer)


def _revocations_endpoint(gate: _Gate) -> Endpoint:
    async def answer(request: Request) -> bytes:
        address, now_s = gate.admit(request)
        caller = gate.check(request, b"", address, now_s)
        lab = LabId(request.query_params.get("lab", ""))
        return encode(await _handled(gate.service, node.revocations, now_s, caller, lab))

    return _guarded(answer)


def _status_endpoint(gate: _Gate) -> Endpoint:
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


async def _read_body(request: Request, message: str, limit: int, service: Service) -> bytes:
    stated = request.headers.get("Content-Length", "")
    if stated.isdecimal() and int(stated[:20]) > limit:
        raise WireError("message_too_large", message=message, size=stated[:20], limit=limit)
    limit_s = service.house.settings.body_s
    body = bytearray()
    try:
        async with asyncio.timeout(limit_s):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise WireError(
                        "message_too_large", message=message, size=len(body), limit=limit
                    )
    except TimeoutError as cause:
        raise CoordinatorError("coordinator_request_slow", limit_s=limit_s) from cause
    return bytes(body)


def _guarded(answer: Callable[[Request], Awaitable[bytes]]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        try:
            return Response(await answer(request), media_type="application/json")
        except GoblinError as error:
            return _error_response(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:  # the edge of the process: the sender learns nothing of our insides
            _log.exception("%s %s failed", request.method, request.url.path)
            return _error_response(CoordinatorError("coordinator_internal"), 500)

    return endpoint


async def _unknown_route(request: Request, error: Exception) -> Response:
    refusal = CoordinatorError(
        "coordinator_route_unknown", method=request.method[:16], path=request.url.path[:200]
    )
    status = error.status_code if isinstance(error, HTTPException) else 404
    return _error_response(refusal, status)


def _error_response(error: GoblinError, status: int | None = None) -> Response:
    status = status_of(error) if status is None else status
    fields = {
        name: value if isinstance(value, (int, float, str)) else str(value)
        for name, value in error.fields.items()
    }
    body = {
        "code": error.code,
        "what": error.what,
        "next_step": error.next_step,
        "fields": fields,
    }
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(int(float(str(error.fields.get("wait_s", _RETRY_AFTER_S)))))
    if status in (408, 413):
        headers["Connection"] = "close"  # what is still to come of the body is not read
    return Response(
        msgspec.json.encode(body), status, headers=headers, media_type="application/json"
    )
