"""Enrolment and contact against a coordinator that answers from a list."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.agent import coordinator
from gpugoblin.errors import AgentError, WireError
from gpugoblin.wire.codec import encode
from gpugoblin.wire.messages.account import AccountMachine, MachinesReply
from gpugoblin.wire.messages.contact import Contact, ContactReply
from gpugoblin.wire.messages.enrol import (
    EnrolCodeReply,
    EnrolMailReply,
    EnrolPollReply,
    EnrolStartReply,
)
from gpugoblin.wire.signing import fingerprint
from tests.helpers.messages import example

KEY = b"k" * 32


class Answers:
    """Stands for a link: answers in order, keeps what was asked."""

    def __init__(self, *replies: msgspec.Struct | bytes) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, int]] = []

    def call(self, method: str, path: str, body: bytes = b"", *, max_bytes: int, **_: Any) -> bytes:
        self.asked.append((path, max_bytes))
        reply = self.replies.pop(0)
        return reply if isinstance(reply, bytes) else encode(reply)


def started(**fields: object) -> EnrolStartReply:
    reply = EnrolStartReply("enrol_a", "ABCD-2345", fingerprint(KEY), 2.0, 20.0)  # type: ignore[arg-type]
    return msgspec.structs.replace(reply, **fields)


def enrol(*replies: msgspec.Struct) -> tuple[str, list[float], list[str]]:
    slept: list[float] = []
    shown: list[str] = []
    link: Any = Answers(*replies)
    device = coordinator.enrol(link, KEY, lambda each: shown.append(each.user_code), slept.append)
    return device, slept, shown


def poll(state: Any, device: Any = None) -> EnrolPollReply:
    return EnrolPollReply(state, device)


def test_a_code_that_is_approved() -> None:
    device, slept, shown = enrol(started(), poll("pending"), poll("approved", "device_a"))
    assert (device, slept, shown) == ("device_a", [2.0, 2.0], ["ABCD-2345"])


def test_slow_down_adds_five_seconds() -> None:
    _, slept, _ = enrol(started(), poll("slow_down"), poll("approved", "device_a"))
    assert slept == [2.0, 7.0]


@pytest.mark.parametrize(
    ("replies", "code"),
    [
        ((started(), poll("denied")), "enrolment_denied"),
        ((started(), poll("expired")), "enrolment_expired"),
        ((started(expires_s=4.0), poll("pending"), poll("pending")), "enrolment_expired"),
        ((started(fingerprint="dead-dead-dead-dead"),), "enrolment_fingerprint"),
    ],
)
def test_a_code_that_is_not(replies: tuple[msgspec.Struct, ...], code: str) -> None:
    with pytest.raises(AgentError) as caught:
        enrol(*replies)
    assert caught.value.code == code


def test_an_approval_without_a_device_is_none() -> None:
    with pytest.raises(AgentError):
        enrol(started(expires_s=2.0), poll("approved"))


def test_a_contact_is_bounded_by_its_reply() -> None:
    reply = example(ContactReply, bare=True)
    link: Any = Answers(reply)
    assert coordinator.contact(link, Contact(())) == reply
    assert link.asked == [("/v1/contact", 1024 * 1024)]


def test_a_reply_that_is_no_message() -> None:
    link: Any = Answers(b"{}")
    with pytest.raises(WireError):
        coordinator.contact(link, Contact(()))


def test_a_letter_and_its_code() -> None:
    link: Any = Answers(EnrolMailReply("ask_a", 600.0), EnrolCodeReply("device_a"))  # type: ignore[arg-type]
    reply = coordinator.enrol_mail(link, "enrol_a", " ann@example.org ", "fr")  # type: ignore[arg-type]
    assert reply.ask == "ask_a"
    assert coordinator.enrol_code(link, "enrol_a", reply.ask, "\uff11234 5678") == "device_a"  # type: ignore[arg-type]
    assert [path for path, _ in link.asked] == ["/v1/enrol/mail", "/v1/enrol/code"]


@pytest.mark.parametrize(
    "mailbox", ["", "ann", "ann@", "a b@example.org", "a@b\nc", "é@b", "a" * 400]
)
def test_what_is_no_mailbox_is_not_sent(mailbox: str) -> None:
    link: Any = Answers()
    with pytest.raises(AgentError) as caught:
        coordinator.enrol_mail(link, "enrol_a", mailbox, "fr")  # type: ignore[arg-type]
    assert caught.value.code == "signin_mailbox_malformed"
    assert link.asked == []


@pytest.mark.parametrize("code", ["", "1234567", "123456789", "abcdefgh"])
def test_what_is_no_code_costs_no_try(code: str) -> None:
    link: Any = Answers()
    with pytest.raises(AgentError) as caught:
        coordinator.enrol_code(link, "enrol_a", "ask_a", code)  # type: ignore[arg-type]
    assert caught.value.code == "login_code_malformed"
    assert link.asked == []


def test_the_machines_of_the_account() -> None:
    reply = MachinesReply((AccountMachine("0123-4567-89ab-cdef", 5.0, None, False, 2, 12.5),))
    link: Any = Answers(reply, b"{}")
    assert coordinator.machines(link) == reply
    assert [path for path, _ in link.asked] == ["/v1/account/machines"]
    with pytest.raises(WireError):
        coordinator.machines(link)
