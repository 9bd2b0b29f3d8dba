"""Codes in letters, and sessions."""

from __future__ import annotations

import re

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.handlers import signin
from tests.helpers.coordinator import Desk

ANN = "ann@example.org"


@pytest.fixture
def desk(desk: Desk) -> Desk:
    return Desk(desk.tx, mail_host="127.0.0.1")


def ask(desk: Desk, mailbox: str = ANN, address: str = "192.0.2.1") -> tuple[str, str]:
    """The browser's secret and the code of the letter, or "" when none was written."""
    before = desk.tx.row("SELECT COALESCE(MAX(number), 0) FROM mail")
    secret = signin.ask_code(desk.house, desk.tx, desk.now_s, desk.rng, mailbox, "en", address)
    row = desk.tx.row("SELECT number, words_letter FROM mail ORDER BY number DESC LIMIT 1")
    if row is None or before is None or row[0] == before[0]:
        return secret, ""
    found = re.search(r"\d{4} \d{4}", row[1])
    assert found is not None
    return secret, found[0]


def redeem(desk: Desk, secret: str, code: str) -> str:
    found = signin.redeem(desk.house, desk.tx, desk.now_s, desk.rng, secret, code)
    return found.code if isinstance(found, CoordinatorError) else found


def enter(desk: Desk, mailbox: str = ANN) -> str:
    return redeem(desk, *ask(desk, mailbox))


def person(desk: Desk, session: str) -> signin.Person | None:
    return signin.person_of(desk.house, desk.tx, desk.now_s, session)


def test_a_code_makes_an_account_and_a_session(desk: Desk) -> None:
    assert desk.tx.rows("SELECT * FROM account") == []
    found = person(desk, enter(desk))
    assert found is not None
    assert (found.mailbox, found.role, found.is_listed) == (ANN, "contributor", False)


def test_the_same_mailbox_is_the_same_account(desk: Desk) -> None:
    first, second = person(desk, enter(desk)), person(desk, enter(desk, "ann@EXAMPLE.org"))
    assert first is not None
    assert second is not None
    assert first.account == second.account


def test_codes_are_tried_so_often(desk: Desk) -> None:
    secret, code = ask(desk)
    wrong = "0000 0000" if code != "0000 0000" else "1111 1111"
    for _ in range(desk.house.settings.login_tries):
        assert redeem(desk, secret, wrong) == "login_code_wrong"
    assert redeem(desk, secret, code) == "login_code_wrong"


def test_codes_are_used_once_and_end(desk: Desk) -> None:
    secret, code = ask(desk)
    assert redeem(desk, secret, code).startswith("session_")
    assert redeem(desk, secret, code) == "login_code_wrong"
    secret, code = ask(desk)
    desk.now_s += desk.house.settings.login_s
    assert redeem(desk, secret, code) == "login_code_wrong"


def test_a_code_of_another_browser_is_wrong(desk: Desk) -> None:
    _, code = ask(desk)
    other, _ = ask(desk, "bob@example.org")
    assert redeem(desk, other, code) == "login_code_wrong"


def test_a_mailbox_is_not_flooded_and_the_asker_learns_nothing(desk: Desk) -> None:
    found = [ask(desk) for _ in range(6)]
    written = [code for _, code in found if code]
    assert len(written) == desk.house.settings.letters_at_once
    assert all(secret.startswith("ask_") for secret, _ in found)
    desk.now_s += desk.house.settings.letter_s
    assert ask(desk)[1]


def test_neither_code_nor_secrets_lie_in_the_database(desk: Desk) -> None:
    secret, code = ask(desk)
    session = redeem(desk, secret, code)
    desk.tx.execute("DELETE FROM mail")
    text = "".join(
        str(row)
        for table in ("login_code", "session", "account")
        for row in desk.tx.rows(f"SELECT * FROM {table}")  # noqa: S608
    )
    for hidden in (secret, session, code, code.replace(" ", "")):
        assert hidden not in text


def test_sessions_end_by_silence_and_by_age(desk: Desk) -> None:
    settings = desk.house.settings
    session = enter(desk)
    desk.now_s += settings.session_idle_s - 1
    assert person(desk, session) is not None
    desk.now_s += settings.session_idle_s + 1
    assert person(desk, session) is None
    session = enter(desk)
    began_s = desk.now_s
    while desk.now_s < began_s + settings.session_s:
        assert person(desk, session) is not None
        desk.now_s += settings.session_idle_s / 2
    desk.now_s += 1
    assert person(desk, session) is None


def test_an_account_has_so_many_sessions(desk: Desk) -> None:
    sessions = []
    for _ in range(signin.MAX_SESSIONS + 3):
        desk.now_s += desk.house.settings.letter_s
        sessions.append(enter(desk))
    row = desk.tx.row("SELECT COUNT(*) FROM session")
    assert row == (signin.MAX_SESSIONS,)
    assert person(desk, sessions[-1]) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "ann@",
        "@example.org",
        "ann@exa mple.org",
        "ann@example.org\nBcc: x@y.z",
        "a@" + "b" * 300,
        "a@-b.c",
    ],
)
def test_what_is_no_mail_address(desk: Desk, text: str) -> None:
    with pytest.raises(CoordinatorError, match="mailbox_malformed"):
        ask(desk, text)


def test_without_a_mail_server_nobody_signs_in(desk: Desk) -> None:
    with pytest.raises(CoordinatorError, match="signin_off"):
        ask(Desk(desk.tx))


def test_a_closed_account_has_no_session(desk: Desk) -> None:
    session = enter(desk)
    desk.tx.execute("UPDATE account SET closed_s = 1.0")
    assert person(desk, session) is None


def test_random_secrets_are_nobody(desk: Desk) -> None:
    assert person(desk, "session_x") is None
    assert person(desk, "") is None


@pytest.mark.parametrize(
    "mailbox",
    [
        "=?utf-8?q?v=40example.net=2C?=@x.org",
        "=?a?q?ann?=@example.org",
        "=?utf-8?b?/w==?=@x.org",
        "a=?b@x.org",
        "a..b@x.org",
        ".a@x.org",
        "a.@x.org",
        "a" * 65 + "@x.org",
    ],
)
def test_a_mailbox_has_no_second_spelling(mailbox: str) -> None:
    with pytest.raises(CoordinatorError, match="mailbox_malformed"):
        signin.mailbox_of(mailbox)


def test_upper_case_brings_no_more_letters(desk: Desk) -> None:
    spelled = [ANN, "Ann@example.org", "ANN@example.org", "aNN@example.org"]
    assert [bool(ask(desk, mailbox)[1]) for mailbox in spelled] == [True, True, True, False]


def test_one_network_asks_for_so_many_letters(desk: Desk) -> None:
    for count in range(60):
        assert ask(desk, f"box-{count}@example.org")[1]
    with pytest.raises(CoordinatorError, match="coordinator_rate_limited"):
        ask(desk, ANN, "192.0.2.77")
    assert ask(desk, ANN, "198.51.100.1")[1]


def test_digits_of_full_width_are_digits(desk: Desk) -> None:
    secret, code = ask(desk)
    wide = "".join(chr(ord(digit) + 0xFEE0) for digit in code if digit != " ")
    assert redeem(desk, secret, wide).startswith("session_")


def test_a_session_that_changed_is_not_still_the_same(desk: Desk) -> None:
    session = enter(desk)
    ann = person(desk, session)
    assert ann is not None
    assert signin.is_still(desk.tx, session, ann)
    assert not signin.is_still(desk.tx, "session_other", ann)
    for change in ("role = 'operator'", "name = 'other'", "closed_s = 1.0"):
        with desk.tx.nested():
            desk.tx.execute(f"UPDATE account SET {change}")  # noqa: S608 - our own words
            assert not signin.is_still(desk.tx, session, ann), change
        desk.tx.execute(
            "UPDATE account SET role = ?, name = ?, closed_s = NULL", ann.role, ann.name
        )


def test_the_sessions_of_an_account_are_listed_the_own_one_first(desk: Desk) -> None:
    first = enter(desk)
    desk.now_s += 3600
    second = enter(desk)
    enter(desk, "bob@example.org")
    ann = person(desk, first)
    assert ann is not None
    found = signin.sessions(desk.house, desk.tx, desk.now_s, ann.account, first)
    assert [(one.is_own, one.tag) for one in found] == [
        (True, signin.tag_of(first)), (False, signin.tag_of(second)),
    ]  # fmt: skip
    assert first not in repr(found)
    assert found[0].created_s == desk.now_s - 3600
    desk.now_s += desk.house.settings.session_idle_s + 1
    assert signin.sessions(desk.house, desk.tx, desk.now_s, ann.account, first) == []


def test_one_session_of_ones_own_is_ended(desk: Desk) -> None:
    first, second, other = enter(desk), enter(desk), enter(desk, "bob@example.org")
    ann = person(desk, first)
    assert ann is not None
    tag = signin.tag_of(second)
    for wrong in ("", tag[:-1], signin.tag_of(other), "%" * 16, "_" * 16, tag + "0"):
        with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
            signin.sign_out_other(desk.tx, desk.now_s, ann.account, wrong)
    signin.sign_out_other(desk.tx, desk.now_s, ann.account, tag)
    assert [person(desk, one) is None for one in (first, second, other)] == [False, True, False]
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        signin.sign_out_other(desk.tx, desk.now_s, ann.account, tag)
