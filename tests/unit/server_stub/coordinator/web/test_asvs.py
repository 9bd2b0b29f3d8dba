"""The tables of security name tests that exist, and the items that no other test had."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from server_stub.coordinator import server
from server_stub.coordinator.schema import COLUMNS
from server_stub.coordinator.settings import SETTINGS
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.web.site import PAGES
from server_stub.web import forms
from server_stub.web.pages import headers
from tests.helpers.asvs import ITEMS, Item, file_of
from tests.helpers.coordinator_front import Browser, Front
from tests.helpers.named_tests import ROOT, named_tests

THREATS = re.findall(
    r"^\| (.+?) \| .+? \| (`tests/.+?`(?:, `tests/.+?`)*) \|$",
    (ROOT / "SECURITY.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
"""Threat and tests of each row of the table in SECURITY.md."""


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.number)
def test_every_item_has_a_test_that_exists_or_says_what_is_lacking(item: Item) -> None:
    assert item.tests or item.lacking
    assert item.level in (1, 2)
    for test in item.tests:
        file, name = file_of(test)
        assert name in named_tests(file), test


def test_items_stand_once_in_their_order() -> None:
    numbers = [tuple(map(int, item.number.split("."))) for item in ITEMS]
    assert numbers == sorted(set(numbers))


def test_there_are_rows_of_threats() -> None:
    heading = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Threats")[2]
    rows = [line for line in heading.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert len(THREATS) == len(rows) - 2 >= 15


@pytest.mark.parametrize(("threat", "tests"), THREATS)
def test_every_threat_has_a_test_that_exists(threat: str, tests: str) -> None:
    for test in re.findall(r"`(.+?)`", tests):
        file, _, name = test.partition("::")
        assert name in named_tests(file), f"{threat}: {test}"


def test_pages_say_what_browsers_may() -> None:
    found = headers()
    assert found["X-Content-Type-Options"] == "nosniff"
    assert found["Referrer-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in found["Content-Security-Policy"]
    assert "base-uri 'none'" in found["Content-Security-Policy"]


def test_codes_last_ten_minutes_at_most_by_default() -> None:
    (login,) = (one for one in SETTINGS if one.name == "login_s")
    assert login.default == 600.0


def test_sessions_have_128_bits(ann: Browser) -> None:
    """As they are drawn, and from the system's generator."""
    assert re.fullmatch(r"session_[a-z2-7]{26}", ann.cookies[forms.SESSION])
    assert "random.SystemRandom()" in inspect.getsource(server)


def test_a_get_changes_nothing(boss: Browser, front: Front) -> None:
    def facts(tx: Transaction) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table: tx.rows(f"SELECT * FROM {table}")  # noqa: S608 - our words
            for table in COLUMNS
            if table != "session"  # when it was seen last
        }

    before = front.store.submit(facts).result(10)
    query = "act=revoke&act=suspend&device=x&lab=x&name=changed&code=x&everywhere=1&team=x"
    for page in PAGES:
        boss.get(f"{page.path}?{query}")
    assert boss.get("/account").status == 200
    assert front.store.submit(facts).result(10) == before


def test_no_secret_stands_in_an_address(front: Front) -> None:
    """Every form is sent by POST, and what answers a sign-in leads to plain addresses."""
    templates = [*(ROOT / "server_stub").rglob("coordinator/web/templates/*.html")]
    templates.append(ROOT / "server_stub" / "web" / "templates" / "common.html")
    found = [tag for one in templates for tag in re.findall(r"<form[^>]*>", one.read_text())]
    assert found
    assert all('method="post"' in tag for tag in found), found
    browser = Browser(front)
    assert browser.post("/signin", {"mailbox": "ann@example.org"}).headers["location"] == (
        "/signin/code"
    )
    assert browser.sign_in("ann@example.org").headers["location"] == "/account"
