"""What the agent says to a program.

Owns: these messages and their bounds. Must not: do I/O, or hold words for people: reasons travel as
codes with figures.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from app.control.items import (
    Code,
    Id,
    Item,
    LogLine,
    Number,
    ReasonItem,
    Text,
    UnixSeconds,
    Value,
)
from app.control.items import Plain as _Plain
from app.control.items import Tagged as _Message

__all__ = [
    "Accepted",
    "Answer",
    "Delta",
    "EnrolIs",
    "Finding",
    "HistoryIs",
    "HistoryRow",
    "LogsAre",
    "MachineItem",
    "MachinesAre",
    "PreviewIs",
    "Refused",
    "Report",
    "SelfTestIs",
    "SettingItem",
    "SettingsAre",
    "SettingsDeclared",
    "ShowPage",
    "Snapshot",
    "Welcome",
    "WouldItem",
]


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
