"""Bodies in, messages and errors out.

Owns: the bound of every body before it is read, the mapping of error codes to HTTP statuses, and
the JSON form of an error. Must not: know a route.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from gpugoblin.errors import GoblinError, NodeError, WireError
from gpugoblin.wire.codec import decode, encode, message_type

__all__ = [
    "STATUS",
    "body_bytes",
    "error_response",
    "integer",
    "on_goblin_error",
    "on_http_exception",
    "on_surprise",
    "pieces",
    "read_body",
    "read_message",
    "reply",
    "status_of",
    "whole_body",
]

T = TypeVar("T", bound=msgspec.Struct)

log = logging.getLogger("gpugoblin.node")

STATUS: Final = {
    "not_authenticated": 401,
    "token_revoked": 401,
    "token_expired": 401,
    "user_revoked": 403,
    "not_permitted": 403,
    "not_the_owner": 403,
    "quota_disk": 403,
    "quota_tasks": 403,
    "quota_grid_hours": 403,
    "validator_unknown": 403,
    "validator_caught": 403,
    "validator_differs": 409,
    "not_found": 404,
    "method_not_allowed": 405,
    "unknown_array": 404,
    "unknown_job": 404,
    "unknown_lease": 404,
    "blob_missing": 404,
    "region_not_verified": 409,
    "result_damaged": 409,
    "job_name_taken": 409,
    "job_not_done": 409,
    "job_not_kept": 409,
    "result_collected": 410,
    "upload_offset": 409,
    "length_required": 411,
    "body_too_large": 413,
    "message_too_large": 413,
    "output_too_large": 413,
    "grant_missing": 401,
    "grant_revoked": 403,
    "blob_not_leased": 403,
    "not_confirmed": 403,
    "no_volunteers": 503,
    "internal": 500,
    "database_failed": 503,
    "database_locked": 503,
    "state_dir_moved": 503,
    "shutting_down": 503,
    "disk_full": 507,
    "results_do_not_fit": 507,
}
"""Codes that are not 400. Signatures and tickets are 401 as families (see `status_of`)."""

JSON: Final = "application/json"


def status_of(error: GoblinError) -> int:
    """The HTTP status of an error."""
    if error.code.startswith(("signature_", "ticket_")):
        return 401
    return STATUS.get(error.code, 400)


def error_response(error: GoblinError) -> Response:
    """`{"code", "what", "next_step", "fields"}`; fields are text."""
    body = {
        "code": error.code,
        "what": error.what,
        "next_step": error.next_step,
        "fields": {name: str(value)[:1000] for name, value in error.fields.items()},
    }
    status = status_of(error)
    headers = {"Retry-After": "2"} if status == 503 else {}
    return Response(msgspec.json.encode(body), status, headers=headers, media_type=JSON)


async def on_goblin_error(request: Request, error: Exception) -> Response:
    """What a handler raises on purpose."""
    if not isinstance(error, GoblinError):
        return await on_surprise(request, error)
    return error_response(error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """What the router refuses."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = request.url.path[:200]
    if status == 405:
        return error_response(NodeError("method_not_allowed", method=request.method, path=path))
    return error_response(NodeError("not_found", path=path))


async def on_surprise(request: Request, error: Exception) -> Response:
    """What nobody expected: the log has it all, the caller a code."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(NodeError("internal", kind=type(error).__name__))


def body_bytes(headers: Mapping[str, str], limit: int) -> int:
    """The announced size of a body. Raises NodeError `length_required`, `body_too_large`."""
    text = headers.get("content-length")
    if text is None:
        if headers.get("transfer-encoding") is None:
            return 0
        raise NodeError("length_required")
    if not (text.isascii() and text.isdigit()):
        raise NodeError("length_required")
    size = int(text[:20])
    if size > limit:
        raise NodeError("body_too_large", size=size, limit=limit)
    return size


async def whole_body(receive: Receive, limit: int) -> bytes:
    """A body from the server, refused as soon as it is larger than `limit`."""
    parts: list[bytes] = []  # put together once: a piece of 4 MiB comes in some 64 parts
    size = 0
    while True:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise ClientDisconnect
        more: bytes = part.get("body", b"")
        parts.append(more)
        size += len(more)
        if size > limit:
            raise NodeError("body_too_large", size=size, limit=limit)
        if not part.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_body(request: Request, limit: int) -> bytes:
    """A whole small body: refused by its announced size before a byte of it is read."""
    body_bytes(request.headers, limit)
    return await whole_body(request.receive, limit)


async def pieces(request: Request, limit: int, piece_bytes: int) -> AsyncGenerator[bytes, None]:
    """A large body in pieces of about `piece_bytes`, never more than it announced."""
    expected = body_bytes(request.headers, limit)
    waiting = bytearray()
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > expected:
            raise NodeError("body_too_large", size=size, limit=expected)
        waiting += part
        if len(waiting) >= piece_bytes:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


async def read_message(request: Request, kind: type[T]) -> T:
    """Decodes a body. Raises NodeError or WireError."""
    entry = message_type(kind)
    try:
        body = await read_body(request, entry.max_bytes)
    except NodeError as error:
        if error.code == "body_too_large":
            raise WireError(
                "message_too_large", message=entry.key, size=error.fields["size"],
                limit=entry.max_bytes,
            ) from error  # fmt: skip
        raise
    return decode(kind, body)


def reply(message: msgspec.Struct, status: int = 200) -> Response:
    """A message as a response."""
    return Response(encode(message), status, media_type=JSON)


def integer(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query. Raises NodeError `parameter_invalid`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise NodeError("parameter_invalid", name=name, value=text[:40], reason="no whole number")
    value = int(text)
    if not least <= value <= most:
        raise NodeError(
            "parameter_invalid", name=name, value=value, reason=f"not from {least} to {most}"
        )
    return value
