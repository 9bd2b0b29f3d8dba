"""What there is to see of an agent, and the bounds of every field on the control socket.

Owns: the items of snapshots and deltas. Must not: do I/O; hold words for people.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

__all__ = [
    "AgentItem",
    "CardItem",
    "Cards",
    "Code",
    "GrantItem",
    "Id",
    "Item",
    "LeaseItem",
    "LogLine",
    "NoticeItem",
    "Number",
    "Plain",
    "ProbeItem",
    "ReasonItem",
    "SensorItem",
    "Tagged",
    "Text",
    "TotalsItem",
    "UnixSeconds",
    "Value",
]

Text = Annotated[str, Meta(max_length=1000)]
Code = Annotated[str, Meta(max_length=64, pattern=r"\A[a-z0-9_]*\Z")]
Id = Annotated[str, Meta(max_length=64, pattern=r"\A[A-Za-z0-9_.:-]*\Z")]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Cards = Annotated[tuple[Annotated[int, Meta(ge=0, le=63)], ...], Meta(max_length=64)]
UnixSeconds = Annotated[float, Meta(ge=0, le=1e11)]
Value = (
    bool
    | int
    | float
    | Annotated[str, Meta(max_length=4096)]
    | Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=256)]
)


class Plain(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a message."""


class Tagged(Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A message or an item: `type` names it."""


class ReasonItem(Plain, frozen=True):
    """Why, as a code with the figures that its words name; `until_s`: when it ends, if known."""

    code: Code
    fields: dict[Code, float | str] = {}
    until_s: UnixSeconds | None = None


class SensorItem(Plain, frozen=True):
    """One temperature, and the limit at which its card stops."""

    label: Text
    temperature_c: float
    limit_c: float | None = None


class AgentItem(Tagged, frozen=True):
    """The agent itself.

    Args:
        profile: of the policy.
        settings_revision: it changes when the owner's settings do, so that a window reads them.
        settings_fault: what is wrong with the settings file; the last good settings hold then.
    """

    key: Literal["agent"]
    build: Id
    pid: Number
    since_s: UnixSeconds
    coordinator: Text
    state: Literal["starting", "not_enrolled", "working", "coordinator_away", "ending"]
    user_code: Id = ""
    fingerprint: Id = ""
    next_contact_s: UnixSeconds | None = None
    profile: Code = "away"
    settings_revision: Number = 0
    settings_fault: Text = ""


class CardItem(Tagged, frozen=True):
    """One card. `why` names the cause when its engine was refused.

    `asks`: whom a card without work asks next, and `asks_at_s` when; a moment that has passed
    means that it is asking now.

    Args:
        reasons: all of them, the strictest first.
        until_s: when the ruling may change by itself.
        identity: UUID or PCI address; `cpu` for the processor.
        duty_percent: of the time that it computes, under THROTTLE.
        busy_percent: of its time that others use, where that is known.
        power_w: what it draws, where that is known.
        cap_w: what it may draw at most by its owner's settings; None for no limit.
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
    identity: Id = ""
    name: Text = ""
    duty_percent: Number = 100
    sensors: Annotated[tuple[SensorItem, ...], Meta(max_length=32)] = ()
    fan_rpm: Number | None = None
    power_w: float | None = None
    memory_bytes: Number | None = None
    memory_used_bytes: Number | None = None
    cap_w: Number | None = None


class ProbeItem(Tagged, frozen=True):
    """What one probe says of itself.

    Args:
        health: `absent`: there is no such thing here, and the rule takes that as harmless.
        source: what it asks.
        line: for people, when it is not well.
    """

    key: Id
    name: Code
    health: Literal["well", "absent", "unknown"]
    source: Text
    line: Text = ""


class GrantItem(Tagged, frozen=True):
    """One grant. `name` and `words`: what the lab says of itself in public; may be empty."""

    key: Id
    lab: Id
    card: Number
    until_s: UnixSeconds
    name: Text = ""
    words: Text = ""


class LeaseItem(Tagged, frozen=True):
    """One lease. It has no size, shape or name: the owner sees stages, not data."""

    key: Id
    card: Number
    stage: Code


class NoticeItem(Tagged, frozen=True):
    """Something that was told lately, as a code; the last few are shown."""

    key: Id
    at_s: UnixSeconds
    code: Code
    fields: dict[Code, str | int | float] = {}


class TotalsItem(Tagged, frozen=True):
    """Since the agent started; `day_bytes` and `energy_wh` of today. `lost_s`: computing that was
    thrown away because a card had to stop, beside the `computed_s` of results."""

    key: Literal["totals"]
    results_sent: Number
    leases_given_back: Number
    bytes_received: Number
    bytes_sent: Number
    cache_bytes: Number
    day_bytes: Number = 0
    energy_wh: float = 0.0
    computed_s: float = 0.0
    lost_s: float = 0.0


Item = AgentItem | CardItem | ProbeItem | GrantItem | LeaseItem | NoticeItem | TotalsItem


class LogLine(Plain, frozen=True):
    """One line of the log: a code with its fields, and the words as they were printed."""

    at_s: UnixSeconds
    code: Code
    text: Text
