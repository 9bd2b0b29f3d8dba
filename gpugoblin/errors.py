"""The one root of all errors, with a stable code and fields.

Owns: `GoblinError`, its families, and the merged table of codes (declared, one family a file, in
`gpugoblin.error_codes`). Must not: import anything outside the standard library and that table.

A message always says what was wrong, where, and what to do next. Codes never change meaning once
released: programs and translations key on them.
"""

from __future__ import annotations

from gpugoblin.error_codes import ALL_CODES, ErrorCode

__all__ = [
    "AgentError",
    "CaptureError",
    "ClientError",
    "CoordinatorError",
    "EngineError",
    "ErrorCode",
    "GoblinError",
    "GraphError",
    "NodeError",
    "PlanError",
    "SandboxError",
    "SettingsError",
    "StoreError",
    "VerifyError",
    "WebError",
    "WireError",
]


class GoblinError(Exception):
    """An error with a stable `code` and named `fields`.

    Args:
        code: a code declared in `gpugoblin.error_codes`.
        fields: the values that the code's sentences name; all of them are required. One called
            `next_step` takes the place of the code's own way out, where that depends on the
            machine.

    Raises:
        LookupError: the code is not declared, or a field that its sentences name is missing. That
            is a programming error, so it is not a `GoblinError` itself.
    """

    def __init__(self, code: str, **fields: object) -> None:
        declared = ALL_CODES.get(code)
        if declared is None:
            raise LookupError(f"error code {code!r} is not declared in gpugoblin.error_codes")
        self.code = code
        self.fields = fields
        try:
            self.what = declared.what.format(**fields)
            self.next_step = str(fields.get("next_step") or declared.next_step.format(**fields))
        except KeyError as missing:
            raise LookupError(f"error code {code!r} needs the field {missing}") from missing
        super().__init__(f"{self.what} {self.next_step} [{code}]")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.fields))


def _rebuild(kind: type[GoblinError], code: str, fields: dict[str, object]) -> GoblinError:
    return kind(code, **fields)


class GraphError(GoblinError, ValueError):
    """A graph, an operator's arguments or a formula is malformed, or over a limit."""


class CaptureError(GoblinError, ValueError):
    """A program of the researcher cannot be said in catalog operators."""


class PlanError(GoblinError, ValueError):
    """A computation cannot be split, does not fit, or would not gain."""


class VerifyError(GoblinError):
    """A result was refused, or the means to verify it are missing."""


class WireError(GoblinError, ValueError):
    """A message, ticket or signature is malformed, too large, expired or for someone else."""


class StoreError(GoblinError, OSError):
    """A blob, array or database on disk is unreadable, truncated, damaged, or the disk is full."""


class EngineError(GoblinError):
    """The engine refused a task, broke the protocol, fell silent or died."""


class SandboxError(GoblinError):
    """The walls around an engine cannot be had on this machine."""


class SettingsError(GoblinError, ValueError):
    """A configuration file is unreadable, or a setting is unknown, missing or invalid."""


class NodeError(GoblinError):
    """The lab node refused a request."""


class CoordinatorError(GoblinError):
    """The coordinator refused a request."""


class WebError(GoblinError):
    """A page of a server refused what a browser sent."""


class AgentError(GoblinError):
    """The contributor's agent cannot do what was asked."""


class ClientError(GoblinError):
    """The researcher's session cannot do what was asked."""
