"""What one source says about a person. Owns the words; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

__all__ = ["DESKTOP_SOURCES", "Input", "SourceName"]

SourceName: TypeAlias = Literal[
    "wayland",
    "mutter",
    "x11",
    "kde",
    "devices",
    "idle_detect",
    "logind",
    "terminals",
    "remote",
    "session",
]

DESKTOP_SOURCES: Final[tuple[SourceName, ...]] = (
    "wayland",
    "mutter",
    "x11",
    "kde",
    "devices",
    "idle_detect",
    "logind",
)
"""Those that speak for the desktop of this login, the best first."""


@dataclass(frozen=True, slots=True)
class Input:
    """The latest input that a source knows of.

    Args:
        last_input_s: Unix seconds; 0.0 for never.
        is_active: input comes now; the source says when it ends.
        awake_for: what keeps the screen awake, where the source tells that.
    """

    last_input_s: float
    is_active: bool = False
    awake_for: str = ""
