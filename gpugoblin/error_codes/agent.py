"""Error codes of the family `agent`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "machine_unsound": ErrorCode(
        what="The agent found its own state unsound: {problem}.",
        next_step="Report this with the output of `gpugoblin agent doctor`; lending has stopped.",
    ),
}
