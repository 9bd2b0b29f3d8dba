"""Errors as they travel: what a lab node said, raised on this side.

Owns: `RemoteError`, and its reading from a reply's body. Must not: make up a text of its own when
the other side gave one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import NodeError

__all__ = ["RemoteError", "remote_error"]

MAX_ERROR_BYTES = 64 * 1024


class RemoteError(NodeError):
    """What the lab node answered, in its own words.

    Args:
        status: the HTTP status.
        code: the node's stable code; it may be newer than this package.
        what, next_step: the node's sentences.
        fields: the node's fields.
    """

    def __init__(
        self, status: int, code: str, what: str, next_step: str, fields: Mapping[str, object]
    ) -> None:
        Exception.__init__(self, f"{what} {next_step} [{code}]")
        self.status = status
        self.code = code
        self.what = what
        self.next_step = next_step
        self.fields = dict(fields)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.status, self.code, self.what, self.next_step, self.fields))


class _Body(Struct, frozen=True):
    code: Annotated[str, Meta(min_length=1, max_length=200)]
    what: Annotated[str, Meta(max_length=16384)]
    next_step: Annotated[str, Meta(max_length=16384)] = ""
    fields: dict[str, object] = {}


def remote_error(status: int, body: bytes) -> RemoteError | None:
    """The error that a reply's body describes; None when the body is not such a description."""
    if len(body) > MAX_ERROR_BYTES:
        return None
    try:
        parsed = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return RemoteError(status, parsed.code, parsed.what, parsed.next_step, parsed.fields)
