"""Error codes of the family `wire`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "message_too_large": ErrorCode(
        what="The message {message} has {size} bytes; at most {limit} are accepted.",
        next_step="Send less in one message, or upload the data as a blob.",
    ),
    "message_malformed": ErrorCode(
        what="The message {message} does not match its declaration: {reason}.",
        next_step="Check that both sides run versions that know this message.",
    ),
}
