"""What the agent says to the coordinator: enrolment by code, contacts, the account's machines.

Owns: these dialogues. Must not: decide when; keep anything. All block: they run on a lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from app.agent.link import Link
from gpugoblin.errors import AgentError, WireError
from gpugoblin.ids import AskId, DeviceId, EnrolmentId
from gpugoblin.wire.codec import decode, encode, message_type
from gpugoblin.wire.messages.account import Machines, MachinesReply
from gpugoblin.wire.messages.contact import Contact, ContactReply
from gpugoblin.wire.messages.enrol import (
    EnrolCode,
    EnrolCodeReply,
    EnrolMail,
    EnrolMailReply,
    EnrolPoll,
    EnrolPollReply,
    EnrolStart,
    EnrolStartReply,
)
from gpugoblin.wire.signing import fingerprint

__all__ = ["contact", "enrol", "enrol_code", "enrol_mail", "machines"]

SLOW_DOWN_S: Final = 5.0
"""What `slow_down` adds to the interval (RFC 8628, section 3.5)."""

LEAST_INTERVAL_S: Final = 0.05
MOST_WAIT_S: Final = 3600.0
CODE_DIGITS: Final = 8


def contact(link: Link, message: Contact) -> ContactReply:
    """One contact.

    Raises:
        AgentError, WireError: see `Link.call` and `gpugoblin.wire.codec.decode`.
    """
    data = link.call(
        "POST", "/v1/contact", encode(message), max_bytes=message_type(ContactReply).max_bytes
    )
    return decode(ContactReply, data)


def enrol(
    link: Link,
    public_key: bytes,
    show: Callable[[EnrolStartReply], None],
    sleep: Callable[[float], None],
) -> DeviceId:
    """Asks for a code, shows it, and waits until somebody approves it.

    Args:
        show: called once with the code and the fingerprint.
        sleep: waits between two polls.

    Raises:
        AgentError: `enrolment_denied`, `enrolment_expired`, `enrolment_fingerprint`, or as
            `contact`.
    """
    data = link.call(
        "POST",
        "/v1/enrol/start",
        encode(EnrolStart(public_key)),
        max_bytes=message_type(EnrolStartReply).max_bytes,
    )
    started = decode(EnrolStartReply, data)
    if started.fingerprint != fingerprint(public_key):
        # Somebody in between has put a key of his own in the place of ours.
        raise AgentError("enrolment_fingerprint", theirs=started.fingerprint)
    show(started)
    interval_s = max(LEAST_INTERVAL_S, started.interval_s)
    waited_s = 0.0
    while waited_s < min(started.expires_s, MOST_WAIT_S):
        sleep(interval_s)
        waited_s += interval_s
        answer = _poll(link, started)
        if answer.state == "slow_down":
            interval_s += SLOW_DOWN_S
        elif answer.state == "approved" and answer.device is not None:
            return answer.device
        elif answer.state == "denied":
            raise AgentError("enrolment_denied")
        elif answer.state == "expired":
            break
    raise AgentError("enrolment_expired", user_code=started.user_code)


def enrol_mail(link: Link, enrolment: EnrolmentId, mailbox: str, language: str) -> EnrolMailReply:
    """Has a letter with a code sent to the owner.

    Raises:
        AgentError: `signin_mailbox_malformed`, or as `contact`.
    """
    data = encode(EnrolMail(enrolment, mailbox.strip()[:300], language))
    try:
        decode(EnrolMail, data)
    except WireError as cause:
        raise AgentError("signin_mailbox_malformed") from cause
    answer = link.call(
        "POST", "/v1/enrol/mail", data, max_bytes=message_type(EnrolMailReply).max_bytes
    )
    return decode(EnrolMailReply, answer)


def enrol_code(link: Link, enrolment: EnrolmentId, ask: AskId, code: str) -> DeviceId:
    """Brings the code of the letter.

    Raises:
        AgentError: `login_code_malformed`, or as `contact`.
    """
    # Keyboards of Japanese type digits of full width.
    digits = "".join(str(int(letter)) for letter in code if letter.isdecimal())
    if len(digits) != CODE_DIGITS:
        raise AgentError("login_code_malformed", digits=CODE_DIGITS)
    answer = link.call(
        "POST",
        "/v1/enrol/code",
        encode(EnrolCode(enrolment, ask, digits)),
        max_bytes=message_type(EnrolCodeReply).max_bytes,
    )
    return decode(EnrolCodeReply, answer).device


def machines(link: Link) -> MachinesReply:
    """The machines of the account that this device belongs to.

    Raises:
        AgentError, WireError: as `contact`.
    """
    data = link.call(
        "POST", "/v1/account/machines", encode(Machines()),
        max_bytes=message_type(MachinesReply).max_bytes,
    )  # fmt: skip
    return decode(MachinesReply, data)


def _poll(link: Link, started: EnrolStartReply) -> EnrolPollReply:
    data = link.call(
        "POST",
        "/v1/enrol/poll",
        encode(EnrolPoll(started.enrolment)),
        max_bytes=message_type(EnrolPollReply).max_bytes,
    )
    return decode(EnrolPollReply, data)
