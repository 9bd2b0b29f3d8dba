"""From what all sources say to one answer: does a person use this machine?

Owns: the order of the sources, and when none is enough. Must not: ask a source. Every desktop needs
a source that speaks for it; terminals and remote sessions count always. Without a desktop (a
server), terminals and remote sessions are all there is, and enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.policy.snapshot import IdleFacts
from app.probes.idle.source import DESKTOP_SOURCES, Input, SourceName

__all__ = ["Desktop", "Merged", "merge"]


@dataclass(frozen=True, slots=True)
class Desktop:
    """What is known of desktops here.

    Args:
        is_there: a desktop runs; None while that is not known.
        locked_since_s: all of them are locked since then; None when one is not.
        awake_for: who forbids idleness to logind (a film, a presentation).
        is_remote: somebody works on a desktop from elsewhere.
    """

    is_there: bool | None = None
    locked_since_s: float | None = None
    awake_for: str = ""
    is_remote: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """The answer; `facts` is None where it is unknown, and `line` says why."""

    facts: IdleFacts | None
    sources: str
    line: str = ""


def merge(
    inputs: Mapping[SourceName, Input], faults: Mapping[SourceName, str], desktop: Desktop
) -> Merged:
    """The latest input of all sources that are worth something.

    Args:
        inputs: what each source that works says.
        faults: why those do not that do not.
    """
    best = next((name for name in DESKTOP_SOURCES if name in inputs), None)
    chosen: list[SourceName] = [best] if best is not None else []
    chosen += [name for name in ("terminals", "remote", "session") if name in inputs]
    sources = ", ".join(chosen)
    if desktop.is_there is None:
        return Merged(None, sources, "it is not known yet whether a desktop runs here")
    if desktop.is_there and best is None:
        whys = "; ".join(f"{name}: {why}" for name, why in sorted(faults.items()))
        line = f"a desktop runs here and no source speaks for it ({whys or 'none is there'})"
        return Merged(None, sources, line[:900])
    if "terminals" not in inputs:
        line = f"terminals cannot be seen ({faults.get('terminals', 'not looked at yet')})"
        return Merged(None, sources, line)
    if desktop.is_remote and best in (None, "logind"):
        return Merged(IdleFacts(0.0, "remote desktop", is_active=True), sources)
    latest = max(chosen, key=lambda name: (inputs[name].is_active, inputs[name].last_input_s))
    awake_for = next((inputs[name].awake_for for name in chosen if inputs[name].awake_for), "")
    return Merged(
        IdleFacts(
            inputs[latest].last_input_s,
            sources if inputs[latest].last_input_s == 0 else latest,
            inputs[latest].is_active,
            awake_for or desktop.awake_for,
            desktop.locked_since_s,
        ),
        sources,
    )
