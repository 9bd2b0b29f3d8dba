"""What a program says to the agent.

Owns: these messages and their bounds. Must not: do I/O. All but `Hello` have a number, which the
answer repeats.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from app.control.items import (
    Cards,
    Code,
    Id,
    Number,
    Text,
    UnixSeconds,
    Value,
)
from app.control.items import Tagged as _Message

__all__ = [
    "SLOW_VERBS",
    "Doctor",
    "EnrolBegin",
    "EnrolPoll",
    "Finish",
    "Hello",
    "History",
    "Logs",
    "Machines",
    "Pause",
    "Preview",
    "Quit",
    "Request",
    "Resume",
    "SelfTest",
    "SessionReport",
    "SettingsDescribe",
    "SettingsGet",
    "SettingsSet",
    "Show",
    "SigninBegin",
    "SigninCode",
    "Status",
    "Stop",
    "Subscribe",
]


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
