"""Signing in and out in a browser."""

from __future__ import annotations

import re

import pytest

from server_stub.coordinator.handlers import signin
from server_stub.web import forms
from server_stub.web.forms import SESSION
from tests.helpers.coordinator_front import Browser, Front, Reply


def test_a_code_signs_in(front: Front) -> None:
    browser = Browser(front)
    reply = browser.sign_in("ann@example.org")
    assert (reply.status, reply.headers["location"]) == (303, "/account")
    assert "ann@example.org" in browser.get("/account").text
    assert forms.ASK not in browser.cookies


def test_the_code_works_in_the_browser_that_asked_alone(front: Front) -> None:
    browser, thief = Browser(front), Browser(front)
    browser.post("/signin", {"mailbox": "ann@example.org"})
    letter = front.store.submit(lambda tx: tx.row("SELECT words_letter FROM mail")).result(10)
    assert letter is not None
    code = "".join(filter(str.isdigit, letter[0].splitlines()[2]))
    thief.post("/signin", {"mailbox": "thief@example.org"})
    assert thief.post("/signin/code", {"code": code}).status == 403
    assert browser.post("/signin/code", {"code": code}).status == 303


def test_every_mailbox_gets_the_same_answer(front: Front) -> None:
    Browser(front).sign_in("ann@example.org")
    known, unknown = Browser(front), Browser(front)
    first = known.post("/signin", {"mailbox": "ann@example.org"})
    second = unknown.post("/signin", {"mailbox": "nobody@example.org"})
    assert (first.status, first.body) == (second.status, second.body)
    assert known.get("/signin/code").text == unknown.get("/signin/code").text


def test_without_having_asked_there_is_no_code_to_type(front: Front) -> None:
    assert Browser(front).get("/signin/code").headers["location"] == "/signin"


def test_signing_out_ends_the_session_on_the_server(ann: Browser, front: Front) -> None:
    stolen = Browser(front, cookies=dict(ann.cookies))
    assert stolen.get("/account").status == 200
    assert _sign_out(ann).headers["location"] == "/"
    assert stolen.get("/account").status == 303


def test_signing_out_everywhere(ann: Browser, front: Front) -> None:
    other = Browser(front)
    front.clock.now_s += 3600
    other.sign_in("ann@example.org")
    _sign_out(other, everywhere="1")
    assert ann.get("/account").status == 303


def test_a_new_sign_in_changes_the_secret(ann: Browser) -> None:
    before = ann.cookies[forms.SESSION]
    ann.sign_in("ann@example.org")
    assert ann.cookies[forms.SESSION] != before


def test_people_see_where_they_are_signed_in_and_end_one(ann: Browser, front: Front) -> None:
    other = Browser(front)
    front.clock.now_s += 3600
    other.sign_in("ann@example.org")
    page = other.get("/account").body.decode()
    assert page.count("This browser") == 1
    (tag,) = re.findall(r'name="session" value="([0-9a-f]{16})"', page)
    refused = ann.post("/account", {"act": "end", "session": signin.tag_of(other.cookies[SESSION])})
    assert refused.status == 403  # the sign-in is an hour old
    assert other.post("/account", {"act": "end", "session": tag}).status == 303
    assert ann.get("/account").status == 303
    assert other.get("/account").status == 200
    assert other.post("/account", {"act": "end", "session": tag}).status == 404


def test_the_log_tells_of_each_sign_in_without_mail_address_or_code(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    browser = Browser(front)
    browser.post("/signin", {"mailbox": "ann@example.org"})
    ask = browser.cookies[forms.ASK]
    assert browser.post("/signin/code", {"code": "00000000"}).status == 403
    browser.sign_in("ann@example.org")
    stray = Browser(front, cookies={forms.ASK: "ask_none"})
    assert stray.post("/signin/code", {"code": "00000000"}).status == 403
    lines = [one.getMessage() for one in caplog.records if "sign-in" in one.getMessage()]
    assert lines[0] == f"sign-in: a code was asked for [{signin.tag_of(ask)}]"
    assert lines[1] == f"sign-in: refused, login_code_wrong [{signin.tag_of(ask)}]"
    assert re.fullmatch(r"sign-in: account_\w+, session [0-9a-f]{16} \[[0-9a-f]{16}\]", lines[3])
    assert lines[4].startswith("sign-in: refused, login_code_wrong [")
    assert [one.levelname for one in caplog.records if "refused" in one.getMessage()] == [
        "WARNING", "WARNING",
    ]  # fmt: skip
    for secret in ("example.org", "00000000", ask, *browser.cookies.values()):
        assert secret not in caplog.text


def test_without_a_mail_server_the_page_says_so(front: Front) -> None:
    quiet = Front(front.store)
    assert "no mail server" in Browser(quiet).get("/signin").text


def _sign_out(browser: Browser, **fields: str) -> Reply:
    page = browser.get("/account").body.decode()
    token = re.findall(r'name="token" value="([^"]*)"', page)[0]
    body = "&".join(f"{name}={value}" for name, value in {"token": token, **fields}.items())
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://test"}
    return browser._ask("POST", "/signout", body.encode(), headers)
