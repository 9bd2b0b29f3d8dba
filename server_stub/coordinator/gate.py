"""What every request passes before anything looks at it: rates, size, signature, status.

Owns: the service that the routes stand before, its checks of a request, the reading of a body, and
the HTTP status of an error. Must not: know a route or a rule of the domain.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec import Struct
from starlette.requests import Request

from gpugoblin.clock import Clock
from gpugoblin.error_codes import FAMILIES
from gpugoblin.errors import CoordinatorError, GoblinError, WireError
from gpugoblin.wire.signing import check_request
from server_stub.coordinator.house import Caller, House
from server_stub.coordinator.store import Store, Transaction
from server_stub.web.rates import Rate, RequestBuckets, network_prefix

__all__ = ["Gate", "Refusal", "Service", "read_body", "status_of", "status_of_code"]

R = TypeVar("R")

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
    "coordinator_lab_suspended": 403,
    "device_unknown": 403,
    "device_revoked": 403,
    "enrolment_unknown": 404,
    "coordinator_subject_unknown": 404,
    "certificate_unknown": 404,
    "team_code_unknown": 404,
    "team_captain_only": 403,
    "certificate_days_wrong": 400,
    "quota_malformed": 400,
    "form_malformed": 400,
    "form_foreign": 403,
    "operator_only": 403,
    "signin_stale": 403,
    "signin_off": 503,
    "mail_crowded": 503,
    "mailbox_malformed": 400,
    "login_code_wrong": 403,
    "words_too_short": 400,
    "words_too_long": 400,
    "words_unprintable": 400,
    "enrolment_crowded": 503,
    "coordinator_database_busy": 503,
    "coordinator_database_full": 503,
    "coordinator_database_damaged": 503,
    "coordinator_database_unreachable": 503,
    "coordinator_outcome_unknown": 503,
    "coordinator_stopping": 503,
    "coordinator_internal": 500,
}


class Refusal(Struct, frozen=True):
    """What comes instead of a reply: a stable code, what was wrong, what to do, and the values."""

    code: str
    what: str
    next_step: str
    fields: dict[str, int | float | str]


@dataclass(slots=True)
class Service:
    """One coordinator behind its routes.

    Args:
        rng: draws ids, codes and jitter: `random.SystemRandom()` outside tests.
        kept: facts that the public pages share for some seconds.
    """

    house: House
    store: Store
    clock: Clock
    rng: random.Random
    version: str
    kept: dict[str, Any] = field(default_factory=dict)

    async def transact(self, work: Callable[[Transaction], R]) -> R:
        """Runs work in a transaction; returns once it is on disk."""
        return await asyncio.wrap_future(self.store.submit(work))


def status_of(error: GoblinError) -> int:
    """The HTTP status of an error."""
    return status_of_code(error.code)


def status_of_code(code: str) -> int:
    """The HTTP status of a declared code."""
    return _STATUS.get(code, 409 if code in FAMILIES["coordinator"] else 400)


class Gate:
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


async def read_body(request: Request, message: str, limit: int, service: Service) -> bytes:
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
