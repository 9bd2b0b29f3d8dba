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
from msgspec import Meta

from app.control.items import (
    AgentItem,
    CardItem,
    Cards,
    Code,
    GrantItem,
    Id,
    Item,
    LeaseItem,
    LogLine,
    NoticeItem,
    Number,
    ProbeItem,
    ReasonItem,
    SensorItem,
    Text,
    TotalsItem,
    UnixSeconds,
    Value,
)
from app.control.items import Plain as _Plain
from app.control.items import Tagged as _Message
from gpugoblin.errors import AgentError

__all__ = [
    "MAX_LINE_BYTES",
    "SLOW_VERBS",
    "VERSION",
    "Accepted",
    "AgentItem",
    "Answer",
    "CardItem",
    "Delta",
    "Doctor",
    "EnrolBegin",
    "EnrolIs",
    "EnrolPoll",
    "Finding",
    "Finish",
    "GrantItem",
    "Hello",
    "History",
    "HistoryIs",
    "HistoryRow",
    "Item",
    "LeaseItem",
    "LogLine",
    "Logs",
    "LogsAre",
    "MachineItem",
    "Machines",
    "MachinesAre",
    "NoticeItem",
    "Pause",
    "Preview",
    "PreviewIs",
    "ProbeItem",
    "Quit",
    "ReasonItem",
    "Refused",
    "Report",
    "Request",
    "Resume",
    "SelfTest",
    "SelfTestIs",
    "SensorItem",
    "SessionReport",
    "SettingItem",
    "SettingsAre",
    "SettingsDeclared",
    "SettingsDescribe",
    "SettingsGet",
    "SettingsSet",
    "Show",
    "ShowPage",
    "SigninBegin",
    "SigninCode",
    "Snapshot",
    "Status",
    "Stop",
    "Subscribe",
    "TotalsItem",
    "Value",
    "Welcome",
    "WouldItem",
    "decode_answer",
    "decode_request",
    "encode",
]

VERSION: Final = 3
MAX_LINE_BYTES: Final = 256 * 1024

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


class SettingsDescribe(_Message, frozen=True):
    """Answered by `SettingsDeclared`: what a window needs to show every setting."""

    request: Number


class EnrolBegin(_Message, frozen=True):
    """Make this device known to the coordinator, if it is not; answered by `EnrolIs`."""

    request: Number


class EnrolPoll(_Message, frozen=True):
    """How the enrolment stands; answered by `EnrolIs`. Changes come as `AgentItem`, too."""

    request: Number


class SigninBegin(_Message, frozen=True):
    """The owner signs in here instead of approving the code elsewhere: a letter with a code goes to
    `mailbox`. Answered by `Accepted`, the same for every mailbox. `language`: of the letter."""

    request: Number
    mailbox: Annotated[str, Meta(max_length=254)]
    language: Code = "en"


class SigninCode(_Message, frozen=True):
    """The code of the letter. Answered by `Accepted`; the device is enrolled soon after."""

    request: Number
    code: Annotated[str, Meta(max_length=64)]


class Preview(_Message, frozen=True):
    """What the rules would say with these settings; answered by `PreviewIs`. Nothing changes."""

    request: Number
    values: Annotated[dict[Id, Value], Meta(max_length=100)]


class SelfTest(_Message, frozen=True):
    """Measure a card for a second with a product in a walled engine; answered by `SelfTestIs`."""

    request: Number
    card: Annotated[int, Meta(ge=0, le=63)]


class Machines(_Message, frozen=True):
    """The machines of the owner's account, asked of the coordinator; answered by `MachinesAre`."""

    request: Number


class History(_Message, frozen=True):
    """What ran; answered by `HistoryIs`, oldest first, at most `limit` rows.

    Args:
        since_s, until_s: Unix seconds; rows that begin in between.
        by: `run` for every stretch of lending to a lab, `day` for sums a day and card.
    """

    request: Number
    since_s: UnixSeconds = 0.0
    until_s: UnixSeconds = 1e11
    by: Literal["run", "day"] = "run"
    limit: Annotated[int, Meta(ge=1, le=5000)] = 1000


class Logs(_Message, frozen=True):
    """The last lines, the oldest first; answered by `LogsAre`. Tokens, addresses and home paths
    are taken out."""

    request: Number
    lines: Annotated[int, Meta(ge=1, le=5000)] = 200


class Show(_Message, frozen=True):
    """Ask whoever shows this agent to come to the front with a page; subscribers get `ShowPage`.

    Answered by `Accepted`, whose `is_new` says whether anybody heard it.
    """

    request: Number
    page: Code = ""


class SessionReport(_Message, frozen=True):
    """What a helper in a desktop session sees there, for an agent of the system. Any user may say
    it where a group is served, of the own session; it holds for half a minute or until the
    connection ends. Answered by `Accepted`.

    Args:
        is_known: False: nothing there tells whether somebody uses the desktop, and `why`.
        last_input_s: Unix seconds; 0.0 for never.
        awake_for: what keeps the screen awake.
        play_why: why it is not known what plays; empty when it is.
    """

    request: Number
    is_known: bool
    why: Text = ""
    last_input_s: UnixSeconds = 0.0
    is_active: bool = False
    awake_for: Text = ""
    games: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    full_screen: Text = ""
    play_why: Text = ""


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
    | SettingsDescribe
    | EnrolBegin
    | EnrolPoll
    | SigninBegin
    | SigninCode
    | Preview
    | SelfTest
    | Machines
    | History
    | Logs
    | Show
    | Doctor
    | SessionReport
)

SLOW_VERBS: Final = (SelfTest, SigninBegin, SigninCode, Machines, Doctor)
"""What is answered when it is done, and holds up nothing that comes after it."""


# -- from the agent to a program ------------------------------------------------------------


class Welcome(_Message, frozen=True):
    """The answer to `Hello`: the version that the agent speaks. A program that speaks another one
    ends the conversation."""

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


class SettingItem(_Plain, frozen=True):
    """One setting as it is declared. `registry`: `policy` or `agent`; `fixed_by`: the profiles
    that decide it, whatever its value says."""

    name: Id
    registry: Literal["policy", "agent"]
    kind: Literal["text", "texts", "path", "int", "float", "bool"]
    default: Value
    unit: Text
    description: Text
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Text, ...] = ()
    is_live: bool = False
    fixed_by: tuple[Code, ...] = ()


class SettingsDeclared(_Message, frozen=True):
    """Every setting."""

    request: Number
    settings: Annotated[tuple[SettingItem, ...], Meta(max_length=200)]


class EnrolIs(_Message, frozen=True):
    """How the enrolment stands. `waiting`: somebody has to approve `user_code` until `until_s`,
    where the coordinator must show the same `fingerprint`."""

    request: Number
    state: Literal["enrolled", "waiting", "asking", "failed"]
    user_code: Id = ""
    fingerprint: Id = ""
    until_s: UnixSeconds | None = None
    why: Text = ""


class WouldItem(_Plain, frozen=True):
    """What would hold for a card; as in a `CardItem`."""

    card: Number
    ruling: Literal["RUN", "THROTTLE", "FREEZE", "STOP"]
    reasons: Annotated[tuple[ReasonItem, ...], Meta(max_length=32)]
    until_s: UnixSeconds | None


class PreviewIs(_Message, frozen=True):
    """Every card, in the order of their numbers."""

    request: Number
    cards: Annotated[tuple[WouldItem, ...], Meta(max_length=64)]


class SelfTestIs(_Message, frozen=True):
    """What a card has shown.

    Args:
        flops_per_s, bytes_per_s: the best of some rounds.
        sandbox_level: of the walls in which it was measured.
        is_fresh: measured just now; False: the card lends, and this is what it showed at its start.
    """

    request: Number
    card: Number
    flops_per_s: float
    bytes_per_s: float
    sandbox_level: Id
    is_fresh: bool


class MachineItem(_Plain, frozen=True):
    """One machine of the account. `is_this`: the one that was asked.

    Args:
        seen_s: when it was last in touch; None: never.
        cards: that work for a lab now.
        credits: of all its verified work.
    """

    fingerprint: Id
    is_this: bool
    created_s: UnixSeconds
    seen_s: UnixSeconds | None
    is_revoked: bool
    cards: Number
    credits: float


class MachinesAre(_Message, frozen=True):
    """The latest first, those that were ended last."""

    request: Number
    machines: Annotated[tuple[MachineItem, ...], Meta(max_length=200)]


class HistoryRow(_Plain, frozen=True):
    """A stretch of lending, or the sum of a day.

    Args:
        begin_s, end_s: Unix seconds.
        lab: empty in sums.
        tasks: results sent.
        busy_s: in which tasks were computed.
        energy_wh: by `energy_source`: `nvml`, `rapl`, or `estimate` (nothing measured it).
        peak_c: the highest temperature; None without a sensor.
    """

    begin_s: UnixSeconds
    end_s: UnixSeconds
    card: Number
    lab: Id
    tasks: Number
    busy_s: float
    energy_wh: float
    energy_source: Literal["nvml", "rapl", "estimate"]
    cost: float
    currency: Id
    peak_c: float | None
    bytes_received: Number
    bytes_sent: Number


class HistoryIs(_Message, frozen=True):
    """What ran. `is_all` is False when `limit` left later rows out."""

    request: Number
    rows: Annotated[tuple[HistoryRow, ...], Meta(max_length=5000)]
    is_all: bool = True


class LogsAre(_Message, frozen=True):
    """The last lines."""

    request: Number
    lines: Annotated[tuple[LogLine, ...], Meta(max_length=5000)]


class ShowPage(_Message, frozen=True):
    """To subscribers: somebody wants this page at the front."""

    page: Code = ""


class Finding(_Plain, frozen=True):
    """One thing that the doctor looked at."""

    subject: Code
    is_well: bool
    what: Text
    next_step: Text = ""


class Report(_Message, frozen=True):
    """What the doctor found."""

    request: Number
    findings: Annotated[tuple[Finding, ...], Meta(max_length=100)]


Answer = (
    Welcome
    | Snapshot
    | Delta
    | Accepted
    | Refused
    | SettingsAre
    | SettingsDeclared
    | EnrolIs
    | PreviewIs
    | SelfTestIs
    | MachinesAre
    | HistoryIs
    | LogsAre
    | ShowPage
    | Report
)

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
