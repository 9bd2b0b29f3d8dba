"""What probes saw over time, as lines of a file without names, and what the rules make of it.

Owns: the form of a line, what is left out of it, and the replay. Must not: gather a fact or read a
clock. A recording can be sent to others: programs, games, cards and troubles have numbers instead
of names, moments count from its begin, and there are no dates and no titles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from app.policy.choices import Choices
from app.policy.combine import CardRuling
from app.policy.machine import PolicyMachine, is_told
from app.policy.rules import RULES
from app.policy.snapshot import (
    CardFacts,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Sensor,
    Snapshot,
)
from gpugoblin.errors import AgentError

__all__ = [
    "Act", "Begin", "Decision", "End", "Facts", "Line", "Recording", "encode", "facts_of", "read",
    "replay",
]  # fmt: skip

FORMAT: Final = 1
MOST_LINES: Final = 200_000
MOST_LINE_BYTES: Final = 64 * 1024
BEGIN_S: Final = 1_767_268_800.0
"""When a replay begins if nobody says otherwise: a Thursday at noon, UTC."""

NEVER_S: Final = -1e9
"""There was no input since the machine started."""

LEAST_STEP_S: Final = 0.1

_Seconds = Annotated[float, Meta(ge=NEVER_S, le=1e8)]
_Word = Annotated[str, Meta(max_length=64)]
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.,-]{1,60}")


class Begin(Struct, frozen=True, tag="begin", forbid_unknown_fields=True):
    """The first line. `pace`: so many seconds of the file are one in which it was recorded."""

    format: int
    pace: Annotated[float, Meta(ge=1, le=3600)] = 1.0


class Facts(Struct, frozen=True, tag="facts", forbid_unknown_fields=True, omit_defaults=True):
    """All facts from this moment on. `unknown`: the names of those that no probe can tell."""

    at_s: _Seconds
    cards: Annotated[tuple[CardFacts, ...], Meta(max_length=64)]
    idle: IdleFacts | None = None
    play: PlayFacts | None = None
    power: PowerFacts | None = None
    network: NetworkFacts | None = None
    load: LoadFacts | None = None
    is_asleep: bool = False
    unknown: Annotated[tuple[_Word, ...], Meta(max_length=16)] = ()


class Act(Struct, frozen=True, tag="act", forbid_unknown_fields=True):
    """Something that whoever records has done: a key, a game that starts."""

    at_s: _Seconds
    what: _Word


class End(Struct, frozen=True, tag="end", forbid_unknown_fields=True):
    """The last line. A recording without it was broken off, and ends with its last facts."""

    at_s: _Seconds


Line = Begin | Facts | Act | End

_encoder: Final = msgspec.json.Encoder(order="deterministic")
_decoder: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole one, in the order of time. `span_s`: how long it is."""

    pace: float
    facts: tuple[Facts, ...]
    acts: tuple[Act, ...]
    span_s: float


@dataclass(frozen=True, slots=True)
class Decision:
    """From `at_s` on a card does what `ruling` says, for these reasons."""

    at_s: float
    card: int
    ruling: str
    codes: tuple[str, ...]
    is_draining: bool = False


def encode(line: Line) -> bytes:
    """One line, its end included."""
    return _encoder.encode(line) + b"\n"


def facts_of(snapshot: Snapshot, begin_s: float, pace: float = 1.0) -> Facts:
    """The facts of a moment without what would tell whose machine it is.

    Args:
        begin_s: of the recording (Unix seconds).
    """

    def since(moment_s: float) -> float:
        return round((moment_s - begin_s) * pace, 3)

    idle, play = snapshot.idle, snapshot.play
    if idle is not None:
        idle = replace(
            idle,
            last_input_s=since(idle.last_input_s) if idle.last_input_s > 0 else NEVER_S,
            source=_told(idle.source, "source"),
            awake_for="program" if idle.awake_for else "",
            locked_since_s=None if idle.locked_since_s is None else since(idle.locked_since_s),
        )
    if play is not None:
        play = PlayFacts(
            _numbered(play.games, "game"),
            "program" if play.full_screen else "",
            _numbered(play.listed, "program"),
        )
    return Facts(
        since(snapshot.now_s),
        tuple(_card(each) for each in snapshot.cards),
        idle,
        play,
        snapshot.power,
        snapshot.network,
        snapshot.load,
        snapshot.is_asleep,
        tuple(sorted(snapshot.why_unknown)),
    )


def _numbered(names: Sequence[str], what: str) -> tuple[str, ...]:
    return tuple(f"{what} {number}" for number in range(1, len(names) + 1))


def _told(text: str, instead: str) -> str:
    """A text of ours; one that holds anything but plain words may be somebody's."""
    return text if _PLAIN.fullmatch(text) else instead


def _card(facts: CardFacts) -> CardFacts:
    return replace(
        facts,
        identity=f"card-{facts.card}",
        trouble="trouble" if facts.trouble else "",
        sensors=None if facts.sensors is None else tuple(
            Sensor(_told(each.label, each.part), each.part, each.temperature_c)
            for each in facts.sensors
        ),
        foreign=None if facts.foreign is None else tuple(
            replace(each, program=f"program {number}")
            for number, each in enumerate(facts.foreign, 1)
        ),
    )  # fmt: skip


def read(lines: Iterable[bytes], source: str = "of a desktop") -> Recording:
    """A recording from the lines of a file.

    Args:
        source: its name, for the refusal.

    Raises:
        AgentError: `recording_malformed`, with the number of the line.
    """
    facts: list[Facts] = []
    acts: list[Act] = []
    pace, last_s = 0.0, 0.0
    is_ended = False
    for number, text in enumerate(lines, 1):
        if number > MOST_LINES or len(text) > MOST_LINE_BYTES:
            raise _malformed(source, number, "it is too long")
        try:
            line = _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            raise _malformed(source, number, str(cause)[:200]) from cause
        if isinstance(line, Begin):
            if number != 1 or line.format != FORMAT:
                raise _malformed(source, number, f"it is no begin of format {FORMAT}")
            pace = line.pace
            continue
        if not pace or is_ended:
            raise _malformed(source, number, "it is before the begin or after the end")
        if line.at_s < last_s:
            raise _malformed(source, number, "it is earlier than the line before")
        last_s = line.at_s
        if isinstance(line, Facts):
            facts.append(line)
        elif isinstance(line, Act):
            acts.append(line)
        else:
            is_ended = True
    if not facts:
        raise _malformed(source, 1, "there are no facts")
    return Recording(pace, tuple(facts), tuple(acts), last_s)


def _malformed(source: str, line: int, reason: str) -> AgentError:
    return AgentError("recording_malformed", path=source, line=line, reason=reason)


def replay(
    recording: Recording, choices: Choices, begin_s: float = BEGIN_S, zone: tzinfo = UTC
) -> list[Decision]:
    """What the rules decide, when: at every change of the facts, and whenever they said they would.

    Args:
        choices: of the owner.
        begin_s, zone: the moment of its begin (Unix seconds) and of the timetable.
    """
    machine, told = PolicyMachine(), dict[int, CardRuling]()
    found: list[Decision] = []
    ends = [each.at_s for each in recording.facts[1:]] + [recording.span_s]
    for facts, end_s in zip(recording.facts, ends, strict=True):
        at_s = facts.at_s
        while True:
            snapshot = _snapshot(facts, at_s, begin_s, zone)
            for ruling in machine.rule(snapshot, RULES, {}, choices):
                if is_told(told.get(ruling.card), ruling):
                    told[ruling.card] = ruling
                    codes = tuple(reason.code for reason in ruling.reasons)
                    found.append(
                        Decision(
                            round(at_s, 3), ruling.card, ruling.ruling.name, codes,
                            ruling.is_draining,
                        )
                    )  # fmt: skip
            change_s = machine.next_change_s(snapshot)
            if change_s is None or change_s - begin_s >= end_s:
                break
            at_s = max(change_s - begin_s, at_s + LEAST_STEP_S)
    return found


def _snapshot(facts: Facts, at_s: float, begin_s: float, zone: tzinfo) -> Snapshot:
    idle: IdleFacts | None = facts.idle
    if idle is not None:
        is_never = idle.last_input_s <= NEVER_S
        locked_s = idle.locked_since_s
        idle = replace(
            idle,
            last_input_s=0.0 if is_never else begin_s + idle.last_input_s,
            locked_since_s=None if locked_s is None else begin_s + locked_s,
        )
    return Snapshot(
        begin_s + at_s, facts.cards, begin_s + at_s, zone, idle, facts.play, facts.power,
        facts.network, facts.load, facts.is_asleep, dict.fromkeys(facts.unknown, "unknown"),
    )  # fmt: skip
