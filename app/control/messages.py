"""The words on the control socket, versioned: one JSON object a line, either way.

Owns: every message and its bounds. Must not: do I/O. Reasons travel as codes with figures; the
words for people are in `words.py`.

A conversation: the program says `Hello`, the agent `Welcome`. Every request has a number of its
own, which its answer repeats. `Subscribe` is answered by a `Snapshot`; from then on every change
comes as a `Delta`, numbered without gaps.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from gpugoblin.errors import AgentError

__all__ = [
    "MAX_LINE_BYTES",
    "VERSION",
    "Accepted",
    "AgentItem",
    "Answer",
    "CardItem",
    "Delta",
    "Doctor",
    "Finding",
    "Finish",
    "GrantItem",
    "Hello",
    "Item",
    "LeaseItem",
    "Pause",
    "Quit",
    "ReasonItem",
    "Refused",
    "Report",
    "Request",
    "Resume",
    "SettingsAre",
    "SettingsGet",
    "SettingsSet",
    "Snapshot",
    "Status",
    "Stop",
    "Subscribe",
    "TotalsItem",
    "Welcome",
    "decode_answer",
    "decode_request",
    "encode",
]

VERSION: Final = 1
MAX_LINE_BYTES: Final = 256 * 1024

Text = Annotated[str, Meta(max_length=1000)]
Code = Annotated[str, Meta(max_length=64, pattern=r"\A[a-z0-9_]*\Z")]
Id = Annotated[str, Meta(max_length=64, pattern=r"\A[A-Za-z0-9_.-]*\Z")]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Cards = Annotated[tuple[Annotated[int, Meta(ge=0, le=63)], ...], Meta(max_length=64)]
UnixSeconds = Annotated[float, Meta(ge=0, le=1e11)]
Value = str | int | bool


class _Message(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    pass


# -- from a program to the agent ------------------------------------------------------------


class Hello(_Message, frozen=True):
    """The first line. `version` is the highest that the program speaks."""

    version: Annotated[int, Meta(ge=1, le=10_000)]


class Status(_Message, frozen=True):
    """Answered by one `Snapshot`."""

    request: Number


class Subscribe(_Message, frozen=True):
    """Answered by a `Snapshot`, then by a `Delta` for every change."""

    request: Number


class Pause(_Message, frozen=True):
    """Free the cards at once, until `until_s` or until resumed. No cards: all of them.

    `intent` is made up by the program, so that sending it again changes nothing.
    """

    request: Number
    intent: Id
    cards: Cards = ()
    until_s: UnixSeconds | None = None


class Finish(_Message, frozen=True):
    """Let the running task end, then pause."""

    request: Number
    intent: Id
    cards: Cards = ()
    until_s: UnixSeconds | None = None


class Stop(_Message, frozen=True):
    """Stop lending and give the grants up, until resumed by hand."""

    request: Number
    intent: Id
    cards: Cards = ()


class Resume(_Message, frozen=True):
    """Lend again, as the rules allow."""

    request: Number
    intent: Id
    cards: Cards = ()


class Quit(_Message, frozen=True):
    """End the program, as SIGTERM does."""

    request: Number


class SettingsGet(_Message, frozen=True):
    """Answered by `SettingsAre`."""

    request: Number


class SettingsSet(_Message, frozen=True):
    """Changes settings if `revision` is still the current one; answered by `SettingsAre`."""

    request: Number
    revision: Number
    values: Annotated[dict[Id, Value], Meta(max_length=100)]


class Doctor(_Message, frozen=True):
    """Looks at everything that lending needs; answered by a `Report`."""

    request: Number


Request = (
    Hello
    | Status
    | Subscribe
    | Pause
    | Finish
    | Stop
    | Resume
    | Quit
    | SettingsGet
    | SettingsSet
    | Doctor
)


# -- what is shown --------------------------------------------------------------------------


class ReasonItem(Struct, frozen=True, forbid_unknown_fields=True):
    """Why, as a code with the figures that its words name."""

    code: Code
    fields: dict[Code, float | str] = {}


class AgentItem(_Message, frozen=True):
    """The agent itself."""

    key: Literal["agent"]
    build: Id
    pid: Number
    since_s: UnixSeconds
    coordinator: Text
    state: Literal["starting", "not_enrolled", "working", "coordinator_away", "ending"]
    user_code: Id = ""
    fingerprint: Id = ""
    next_contact_s: UnixSeconds | None = None


class CardItem(_Message, frozen=True):
    """One card. `why` names the cause when its engine was refused.

    `asks`: whom a card without work asks next, and `asks_at_s` when; a moment that has passed
    means that it is asking now.
    """

    key: Id
    card: Number
    kind: Literal["cpu", "vulkan", "cuda"]
    ruling: Literal["RUN", "THROTTLE", "FREEZE", "STOP"]
    reasons: Annotated[tuple[ReasonItem, ...], Meta(max_length=32)]
    until_s: UnixSeconds | None
    is_draining: bool
    engine: Literal["absent", "starting", "ready", "stopping"]
    doing: Literal["computing", "fetching", "waiting", "resting", "refused", "stopped"]
    sandbox_level: Id
    lab: Id
    queued: Number
    done: Number
    failures: Number
    flops_per_s: float
    why: Code = ""
    fix: Text = ""
    asks: Literal["", "lab", "coordinator"] = ""
    asks_at_s: UnixSeconds | None = None


class GrantItem(_Message, frozen=True):
    """One grant."""

    key: Id
    lab: Id
    card: Number
    until_s: UnixSeconds


class LeaseItem(_Message, frozen=True):
    """One lease. It has no size, shape or name: the owner sees stages, not data."""

    key: Id
    card: Number
    stage: Code


class TotalsItem(_Message, frozen=True):
    """Since the agent started."""

    key: Literal["totals"]
    results_sent: Number
    leases_given_back: Number
    bytes_received: Number
    bytes_sent: Number
    cache_bytes: Number


Item = AgentItem | CardItem | GrantItem | LeaseItem | TotalsItem


# -- from the agent to a program ------------------------------------------------------------


class Welcome(_Message, frozen=True):
    """The answer to `Hello`: the version that both speak from now on."""

    version: Number
    build: Id


class Snapshot(_Message, frozen=True):
    """Everything there is to see. Deltas count on from `number`."""

    request: Number
    number: Number
    items: Annotated[tuple[Item, ...], Meta(max_length=10_000)]


class Delta(_Message, frozen=True):
    """What changed since the one before: new or changed items, keys of those that are gone."""

    number: Number
    changed: Annotated[tuple[Item, ...], Meta(max_length=10_000)]
    removed: Annotated[tuple[Id, ...], Meta(max_length=10_000)]


class Accepted(_Message, frozen=True):
    """The intent holds. `is_new` is False when it had been told before."""

    request: Number
    intent: Id
    is_new: bool


class Refused(_Message, frozen=True):
    """A request that was not done, and why."""

    request: Number
    code: Code
    what: Text
    next_step: Text


class SettingsAre(_Message, frozen=True):
    """All settings that hold, and the revision of the owner's changes."""

    request: Number
    revision: Number
    values: dict[Id, Value]


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that the doctor looked at."""

    subject: Code
    is_well: bool
    what: Text
    next_step: Text = ""


class Report(_Message, frozen=True):
    """What the doctor found."""

    request: Number
    findings: Annotated[tuple[Finding, ...], Meta(max_length=100)]


Answer = Welcome | Snapshot | Delta | Accepted | Refused | SettingsAre | Report

_encoder: Final = msgspec.json.Encoder(order="deterministic")
_requests: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request, strict=True)
_answers: Final[msgspec.json.Decoder[Answer]] = msgspec.json.Decoder(Answer, strict=True)


def encode(message: Request | Answer) -> bytes:
    """One line, its end included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """A request from a line. Raises AgentError `control_malformed`."""
    try:
        return _requests.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise AgentError("control_malformed", reason=str(cause)[:200]) from cause


def decode_answer(line: bytes) -> Answer:
    """An answer from a line. Raises AgentError `control_malformed`."""
    try:
        return _answers.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise AgentError("control_malformed", reason=str(cause)[:200]) from cause
