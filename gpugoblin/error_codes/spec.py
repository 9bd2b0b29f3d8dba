"""The shape of one declared error code. Owns that and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ErrorCode"]


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """What an error says. Both sentences are `str.format` templates over the error's fields.

    Args:
        what: what was wrong and where, one or two sentences.
        next_step: what the reader should do, one sentence.
    """

    what: str
    next_step: str
