"""The JSON interface of the coordinator, described in OpenAPI 3.1 out of its declarations.

Owns: the document `docs/reference/openapi.json`: every route with its message, its reply and the
refusals that may come instead. Messages and bounds are those of `gpugoblin.wire.messages`, routes
and replies those of `app`, statuses those of `gate`. Must not: be read by the server.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import Struct

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.bounds import LabIdField
from gpugoblin.wire.codec import message_type
from gpugoblin.wire.messages.contact import Revocations
from gpugoblin.wire.messages.probe import Probe, ProbeReply
from gpugoblin.wire.signing import FORMS
from server_stub.coordinator.app import MESSAGE_ROUTES
from server_stub.coordinator.gate import Refusal, status_of_code
from server_stub.coordinator.handlers.operator import Status

__all__ = ["OPERATIONS", "Operation", "document", "page"]

_ANY: Final = (
    "coordinator_rate_limited", "coordinator_internal", "coordinator_stopping",
    "coordinator_database_busy", "coordinator_database_full", "coordinator_database_damaged",
    "coordinator_database_unreachable", "coordinator_outcome_unknown",
)  # fmt: skip
"""Refusals that any route may give."""

_SIGNED: Final = (
    "signature_missing", "signature_malformed", "signature_clock_wrong", "signature_wrong",
    "signature_replayed",
)  # fmt: skip
_BODY: Final = ("message_too_large", "message_malformed", "coordinator_request_slow")

_OWN: Final[dict[str, tuple[str, ...]]] = {
    "/v1/enrol/start": (
        "device_key_mismatch", "device_key_weak", "device_revoked", "enrolment_crowded",
    ),
    "/v1/enrol/poll": ("enrolment_unknown",),
    "/v1/enrol/mail": (
        "enrolment_unknown", "mailbox_malformed", "signin_off", "mail_crowded",
    ),
    "/v1/enrol/code": ("enrolment_unknown", "login_code_wrong"),
    "/v1/contact": ("device_unknown", "device_revoked"),
    "/v1/account/machines": ("device_unknown", "device_revoked"),
    "/v1/node/demand": ("coordinator_lab_unknown",),
    "/v1/node/receipts": ("coordinator_lab_unknown", "coordinator_lab_suspended"),
}  # fmt: skip
"""What the handler of a message may refuse beside that."""

_TAIL: Final = """JSON, deterministic; unknown fields are refused, and a body over its bound is \
refused before it is read. A field of whole numbers refuses `5.0`; NaN and infinity do not exist.

A signed request carries the four headers of the security schemes: what is signed, and how, is in \
`gpugoblin/wire/signing.py`. A pair of key and nonce is answered once. Every refusal has the form \
`Refusal`; its `code` is one of the reference of error codes. A path that does not exist is \
answered with 404, a method that a path does not have with 405, both as `coordinator_route_unknown`.

The pages for people are no part of this description."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Args:
        summary: what it is for.
        reply: what comes with status 200; None: plain text.
        message: the body of the request.
        own: refusals of its handler, beside those of the checks before it.
        plain: statuses that come with plain text instead of a `Refusal`.
    """

    method: Literal["get", "post"]
    path: str
    summary: str
    reply: type[Struct] | None
    message: type[Struct] | None = None
    query: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    is_signed: bool = False
    plain: tuple[tuple[int, str], ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """Every refusal that this operation may give."""
        if self.reply is None:
            return ()
        return (
            *(_SIGNED if self.is_signed else ()), *(_BODY if self.message is not None else ()),
            *self.own, *_ANY,
        )  # fmt: skip


def _first_line(kind: type[Struct]) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _messages() -> list[Operation]:
    made = []
    for path, (message, handler) in MESSAGE_ROUTES.items():
        answer = get_type_hints(handler)["return"]
        (reply,) = [
            one for one in get_args(answer) or (answer,) if not issubclass(one, CoordinatorError)
        ]
        made.append(
            Operation(
                "post", path, _first_line(message), reply, message, own=_OWN[path], is_signed=True
            )
        )
    return made


OPERATIONS: Final[tuple[Operation, ...]] = (
    *_messages(),
    Operation(
        "get", "/v1/node/revocations", "The lab's list of revoked grants, signed and numbered.",
        Revocations, query=("lab",), own=("coordinator_lab_unknown",), is_signed=True,
    ),
    Operation(
        "post", "/v1/node/probe", _first_line(Probe), ProbeReply, Probe,
        own=("coordinator_lab_unknown",), is_signed=True,
    ),
    Operation("get", "/v1/status", _first_line(Status), Status),
    Operation("get", "/health", "Does this process live?", None, plain=((200, "It does."),)),
    Operation(
        "get", "/ready", "Can this process work?", None,
        plain=((200, "Its database answers."), (503, "Its database does not answer.")),
    ),
    Operation(
        "get", "/metrics", "Figures in the text form of Prometheus.", None,
        plain=((200, "The figures."),),
    ),
)  # fmt: skip
"""Every route of the interface; a test compares them with those of the application."""


def document(version: str) -> dict[str, Any]:
    """The OpenAPI document, as JSON holds it.

    Args:
        version: of the program.
    """
    kinds: set[type] = {Refusal}
    for one in OPERATIONS:
        kinds.update(kind for kind in (one.message, one.reply) if kind is not None)
    _, schemas = msgspec.json.schema_components(
        sorted(kinds, key=lambda kind: kind.__name__), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gpugoblin coordinator",
            "version": version,
            "license": {"name": "PolyForm-Noncommercial-1.0.0"},
            "description": _TAIL,
        },
        "paths": paths,
        "components": {
            "schemas": _spelled({name: schemas[name] for name in sorted(schemas)}),
            "securitySchemes": {
                name: {
                    "type": "apiKey", "in": "header", "name": name,
                    "description": f"Form: `{form.pattern}`",
                }
                for name, form in FORMS.items()
            },
        },
    }  # fmt: skip


def page() -> str:
    """docs/reference/openapi.json."""
    from importlib.metadata import version

    return json.dumps(document(version("gpugoblin")), indent=1, ensure_ascii=False) + "\n"


def _described(one: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": one.path.removeprefix("/v1").strip("/").replace("/", "_"),
        "summary": one.summary,
    }
    if one.is_signed:
        said["security"] = [{name: [] for name in FORMS}]
    if one.query:
        lab = msgspec.json.schema(LabIdField)
        said["parameters"] = [
            {"name": name, "in": "query", "required": True, "schema": _spelled(lab)}
            for name in one.query
        ]
    if one.message is not None:
        said["requestBody"] = {
            "required": True,
            "description": f"At most {message_type(one.message).max_bytes} bytes.",
            "content": _json_of(one.message),
        }
    said["responses"] = _responses(one)
    return said


def _responses(one: Operation) -> dict[str, Any]:
    made: dict[int, dict[str, Any]] = {
        status: {
            "description": words,
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
        for status, words in one.plain
    }  # fmt: skip
    if one.reply is not None:
        made[200] = {"description": _first_line(one.reply), "content": _json_of(one.reply)}
    by_status: dict[int, list[str]] = {}
    for code in one.codes:
        by_status.setdefault(status_of_code(code), []).append(code)
    for status, codes in by_status.items():
        made[status] = {
            "description": ", ".join(f"`{code}`" for code in codes), "content": _json_of(Refusal),
        }  # fmt: skip
        if status in (429, 503):
            made[status]["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}
            }
    return {str(status): made[status] for status in sorted(made)}


def _json_of(kind: type[Struct]) -> dict[str, Any]:
    return {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}
    }  # fmt: skip


_BASE64: Final = {44: "^[A-Za-z0-9+/]{43}=$", 88: "^[A-Za-z0-9+/]{86}==$"}
"""Keys and signatures by their length in base64: of 32 and of 64 bytes, padded. The length alone
admits other numbers of bytes, and the keyword `contentEncoding` forbids no letter."""


def _spelled(schema: Any) -> Any:
    """Patterns as ECMA 262 writes them (`\\A` and `\\Z` are Python's), and bytes with one."""
    if isinstance(schema, dict):
        if schema.get("contentEncoding") == "base64":
            return {**schema, "pattern": _BASE64[schema["maxLength"]]}
        return {
            key: value.replace(r"\A", "^").replace(r"\Z", "$")
            if key == "pattern" and isinstance(value, str)
            else _spelled(value)
            for key, value in schema.items()
        }
    return [_spelled(one) for one in schema] if isinstance(schema, list) else schema
