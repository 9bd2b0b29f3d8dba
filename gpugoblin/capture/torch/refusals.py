"""What went wrong in a trace, as an error with the researcher's line.

Owns: reading torch's exceptions. Must not: hide one: what is not understood is told with its first
line.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.capture.torch.functions import IN_BYTE_CODE
from gpugoblin.capture.torch.lines import place_of_error
from gpugoblin.errors import CaptureError, GraphError

__all__ = ["refusal_of"]

_ON_DATA: Final = (
    "data-dependent",
    "data dependent",
    "GuardOnDataDependent",
    "Could not guard",
    "Dynamic control flow",
    "is not supported with tensor",
    "symbolic_bool",
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow",
    "Could not extract specialized integer",
    "is_nonzero",
    "_local_scalar_dense",
    "It appears that you're trying to get value out of a tracing tensor",
)
_ON_MEMORY: Final = ("aliasing during higher order op", "might be aliasing")
_SHOWN: Final = 200


def refusal_of(error: Exception, label: str) -> CaptureError:
    """The error to tell about a program of that name."""
    if isinstance(error, CaptureError):
        return error
    place = place_of_error(error)
    text = f"{type(error).__name__}: {error}"
    if any(words in text for words in _ON_DATA):
        return CaptureError(
            "branch_on_data",
            line=place,
            fix="Use torch.where(condition, a, b), torch.cond, or a flag that is passed as a "
            "Python number.",
        )
    if any(words in text for words in _ON_MEMORY):
        return CaptureError("loop_shares_memory", line=place)
    if IN_BYTE_CODE in text:
        found = text[text.index(IN_BYTE_CODE) :].split()
        kind = found[len(IN_BYTE_CODE.split())]
        return CaptureError(
            "capture_failed",
            line=place,
            subject=label,
            reason=f"{IN_BYTE_CODE} {kind}; it must stand outside of scan, cond and while_loop",
        )
    if isinstance(error, GraphError) and error.code == "over_limit":
        return CaptureError("program_too_large", line=place, reason=error.what.rstrip("."))
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return CaptureError(
        "capture_failed",
        line=place,
        subject=label,
        reason=f"{type(error).__name__}: {first[:_SHOWN]}".rstrip("."),
    )
