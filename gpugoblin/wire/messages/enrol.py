"""Enrolment of a device by code (RFC 8628 in shape) or by letter: device and coordinator.

Owns: the dialogue `enrol.*`. The device makes its own key; the coordinator sees the public half.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import AskIdField, DeviceIdField, EnrolmentIdField, PublicKey, Seconds
from gpugoblin.wire.registry import message

__all__ = [
    "EnrolCode",
    "EnrolCodeReply",
    "EnrolMail",
    "EnrolMailReply",
    "EnrolPoll",
    "EnrolPollReply",
    "EnrolStart",
    "EnrolStartReply",
]


@message("enrol.start", sender="device", receiver="coordinator", max_bytes=4096)
class EnrolStart(Struct, frozen=True, forbid_unknown_fields=True):
    """A device asks for a code. The request is signed by `public_key`."""

    public_key: PublicKey


@message("enrol.start_reply", sender="coordinator", receiver="device", max_bytes=4096)
class EnrolStartReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`user_code` is what a person approves; `fingerprint` is shown beside it on both ends."""

    enrolment: EnrolmentIdField
    user_code: Annotated[str, Meta(pattern=r"\A[A-Z0-9]{4}-[A-Z0-9]{4}\Z")]
    fingerprint: Annotated[str, Meta(pattern=r"\A[0-9a-f]{4}(-[0-9a-f]{4}){3}\Z")]
    interval_s: Seconds
    expires_s: Seconds


@message("enrol.poll", sender="device", receiver="coordinator", max_bytes=4096)
class EnrolPoll(Struct, frozen=True, forbid_unknown_fields=True):
    """Has the code been approved? Signed by the key of the start."""

    enrolment: EnrolmentIdField


@message("enrol.poll_reply", sender="coordinator", receiver="device", max_bytes=4096)
class EnrolPollReply(Struct, frozen=True, forbid_unknown_fields=True):
    """`device` is set once approved."""

    state: Literal["pending", "approved", "denied", "expired", "slow_down"]
    device: DeviceIdField | None = None


@message("enrol.mail", sender="device", receiver="coordinator", max_bytes=4096)
class EnrolMail(Struct, frozen=True, forbid_unknown_fields=True):
    """The owner signs in at the device: a letter with a code goes to `mailbox`."""

    enrolment: EnrolmentIdField
    mailbox: Annotated[str, Meta(min_length=3, max_length=254, pattern=r"\A[!-?A-~]+@[!-?A-~]+\Z")]
    language: Annotated[str, Meta(pattern=r"\A[a-z]{2}\Z")]


@message("enrol.mail_reply", sender="coordinator", receiver="device", max_bytes=4096)
class EnrolMailReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The same for every mailbox. `ask` has to come back with the code."""

    ask: AskIdField
    expires_s: Seconds


@message("enrol.code", sender="device", receiver="coordinator", max_bytes=4096)
class EnrolCode(Struct, frozen=True, forbid_unknown_fields=True):
    """The code of the letter: whoever reads that mailbox owns this device."""

    enrolment: EnrolmentIdField
    ask: AskIdField
    code: Annotated[str, Meta(pattern=r"\A[0-9]{8}\Z")]


@message("enrol.code_reply", sender="coordinator", receiver="device", max_bytes=4096)
class EnrolCodeReply(Struct, frozen=True, forbid_unknown_fields=True):
    """The enrolment is approved."""

    device: DeviceIdField
