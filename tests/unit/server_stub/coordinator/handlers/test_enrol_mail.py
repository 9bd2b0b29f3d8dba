"""Enrolment by the code of a letter, at the device."""

from __future__ import annotations

import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AskId, EnrolmentId
from gpugoblin.wire.messages.enrol import EnrolCode, EnrolMail, EnrolPoll, EnrolStart
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator.handlers import enrol, enrol_mail
from tests.helpers.coordinator import Desk

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)
HERE = "192.0.2.1"
ANN = "ann@example.org"


@pytest.fixture
def desk(desk: Desk) -> Desk:
    return Desk(desk.tx, mail_host="127.0.0.1")


def start(desk: Desk, key: Ed25519PrivateKey = KEY) -> EnrolmentId:
    reply = desk.ask(enrol.start, key, EnrolStart(public_key_bytes(key)), HERE)
    return EnrolmentId(reply.enrolment)


def mail(desk: Desk, enrolment: EnrolmentId, language: str = "en") -> tuple[AskId, str]:
    reply = desk.ask(enrol_mail.mail, KEY, EnrolMail(enrolment, ANN, language), HERE)
    row = desk.tx.row("SELECT words_letter FROM mail ORDER BY number DESC LIMIT 1")
    assert row is not None
    found = re.search(r"\d{4} \d{4}", row[0])
    assert found is not None
    return reply.ask, found[0].replace(" ", "")


def test_whoever_reads_the_letter_owns_the_device(desk: Desk) -> None:
    enrolment = start(desk)
    ask, code = mail(desk, enrolment)
    reply = desk.ask(enrol_mail.code, KEY, EnrolCode(enrolment, ask, code), HERE)
    assert desk.ask(enrol.poll, KEY, EnrolPoll(enrolment), HERE).device == reply.device
    row = desk.tx.row(
        "SELECT mailbox FROM device JOIN account USING (account) WHERE device = ?", reply.device
    )
    assert row == (ANN,)
    assert desk.tx.rows("SELECT * FROM session") == [], "a device is no browser"


def test_a_wrong_code_costs_a_try_and_approves_nothing(desk: Desk) -> None:
    enrolment = start(desk)
    ask, code = mail(desk, enrolment)
    wrong = f"{(int(code) + 1) % 10**8:08}"
    for _ in range(desk.house.settings.login_tries):
        refusal = desk.ask(enrol_mail.code, KEY, EnrolCode(enrolment, ask, wrong), HERE)
        assert isinstance(refusal, CoordinatorError)
        assert refusal.code == "login_code_wrong"
    again = desk.ask(enrol_mail.code, KEY, EnrolCode(enrolment, ask, code), HERE)
    assert isinstance(again, CoordinatorError), "the tries were not counted"
    assert desk.ask(enrol.poll, KEY, EnrolPoll(enrolment), HERE).state == "pending"


def test_another_key_neither_asks_nor_redeems(desk: Desk) -> None:
    enrolment = start(desk)
    ask, code = mail(desk, enrolment)
    message = EnrolMail(enrolment, ANN, "en")
    assert desk.refused(enrol_mail.mail, OTHER, message) == "enrolment_unknown"
    stolen = EnrolCode(enrolment, ask, code)
    assert desk.refused(enrol_mail.code, OTHER, stolen) == "enrolment_unknown"


def test_only_an_enrolment_that_waits_asks(desk: Desk) -> None:
    enrolment = start(desk)
    ask, code = mail(desk, enrolment)
    desk.ask(enrol_mail.code, KEY, EnrolCode(enrolment, ask, code), HERE)
    assert desk.refused(enrol_mail.mail, KEY, EnrolMail(enrolment, ANN, "en")) == (
        "enrolment_unknown"
    )
    other = start(desk, OTHER)
    desk.now_s += desk.house.settings.enrol_expires_s + 1
    late = EnrolMail(other, ANN, "en")
    assert desk.refused(enrol_mail.mail, OTHER, late) == "enrolment_unknown"


def test_letters_speak_the_devices_language_where_we_do(desk: Desk) -> None:
    enrolment = start(desk)
    mail(desk, enrolment, "fr")
    mail(desk, enrolment, "xx")
    rows = desk.tx.rows("SELECT subject FROM mail ORDER BY number")
    assert str(rows[0][0]).startswith("Votre code")
    assert str(rows[1][0]).startswith("Your code")
