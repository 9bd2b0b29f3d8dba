"""The words on the control socket, versioned: one JSON object a line, either way.

Owns: the version, and the reading and writing of a line. The messages are in `requests.py` and
`answers.py`, what they show in `items.py`; all are taken from here. Must not: do I/O. Reasons
travel as codes with figures; the words for people are in `words.py`.

A conversation: the program says `Hello`, the agent `Welcome`. Every request has a number of its
own, which its answer repeats. `Subscribe` is answered by a `Snapshot`; from then on every change
comes as a `Delta`, numbered without gaps.
"""

from __future__ import annotations

from typing import Final

import msgspec

from app.control.answers import (
    Accepted,
    Answer,
    Delta,
    EnrolIs,
    Finding,
    HistoryIs,
    HistoryRow,
    LogsAre,
    MachineItem,
    MachinesAre,
    PreviewIs,
    Refused,
    Report,
    SelfTestIs,
    SettingItem,
    SettingsAre,
    SettingsDeclared,
    ShowPage,
    Snapshot,
    Welcome,
    WouldItem,
)
from app.control.items import (
    AgentItem,
    CardItem,
    GrantItem,
    Item,
    LeaseItem,
    LogLine,
    NoticeItem,
    ProbeItem,
    ReasonItem,
    SensorItem,
    TotalsItem,
    Value,
)
from app.control.requests import (
    SLOW_VERBS,
    Doctor,
    EnrolBegin,
    EnrolPoll,
    Finish,
    Hello,
    History,
    Logs,
    Machines,
    Pause,
    Preview,
    Quit,
    Request,
    Resume,
    SelfTest,
    SessionReport,
    SettingsDescribe,
    SettingsGet,
    SettingsSet,
    Show,
    SigninBegin,
    SigninCode,
    Status,
    Stop,
    Subscribe,
)
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
