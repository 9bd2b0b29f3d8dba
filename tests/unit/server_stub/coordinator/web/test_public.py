"""The pages that anyone may read show what the database holds."""

from __future__ import annotations

import pytest

from server_stub.coordinator.handlers import operator
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.web.languages import LANGUAGES, translations
from server_stub.coordinator.web.public import day_names
from server_stub.web import forms
from tests.helpers.coordinator_front import Browser, Front


def test_counts_are_those_of_the_database(front: Front) -> None:
    before = Browser(front).get("/status").text
    for name in ("ann", "bob"):
        Browser(front).sign_in(f"{name}@example.org")
    front.clock.now_s += 10
    assert Browser(front).get("/status").text != before


def test_leaders_are_those_who_chose_so(front: Front, ann: Browser) -> None:
    ann.post("/account", {"name": "ann", "language": "en", "listed": "1"})
    other = Browser(front)
    other.sign_in("bob@example.org")
    other.post("/account", {"name": "bob", "language": "en"})

    def earn(tx: object) -> None:
        for account, _ in tx.rows("SELECT account, name FROM account"):  # type: ignore[attr-defined]
            tx.execute(  # type: ignore[attr-defined]
                "INSERT INTO balance VALUES (?, 2500000)", f"account:{account}"
            )

    front.store.submit(earn).result(10)
    page = Browser(front).get("/leaders").text
    assert "ann" in page
    assert "bob" not in page
    assert "2.5" in page


def test_days_are_named_by_month_and_day() -> None:
    assert day_names(range(0, 3)) == ["01-01", "01-02", "01-03"]


KEPT = (
    "Whoever computes there gives data to the operator: arrays, models, results and the names of"
    " jobs are kept on the operator's machine until they are deleted there, and its administrators"
    " can read them."
)


def lab(front: Front, name: str) -> None:
    new = NewLab(name, "ab" * 32, "https://lab.example.org:8441", "cd" * 32)
    front.store.submit(
        lambda tx: operator.add_lab(tx, front.clock.now_s, front.service.rng, new)
    ).result(10)


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_say_where_data_are_kept_when_the_operator_runs_a_lab(
    front: Front, language: str
) -> None:
    lab(front, "ours")
    told = Front(front.store, chosen={**front.chosen, "hosted_lab": "ours"})
    ann, other = Browser(told), Browser(front)
    for browser in (ann, other):
        browser.sign_in("ann@example.org")
        browser.cookies[forms.LANGUAGE] = language
    kept = translations(language).gettext(KEPT)
    assert kept != KEPT or language == "en"
    for path in ("/privacy", "/research"):
        assert kept in ann.get(path).text
        assert kept not in other.get(path).text
    assert "ours" in ann.get("/questions").text
    assert "ours" not in other.get("/questions").text
    page = ann.get("/research").text
    assert 'node = "https://lab.example.org:8441"' in page
    assert f'certificate_sha256 = "{"cd" * 32}"' in page
    assert len(ann.get("/labs").text) > len(other.get("/labs").text)


def test_a_hosted_lab_that_is_suspended_is_not_offered(front: Front) -> None:
    lab(front, "ours")
    told = Front(front.store, chosen={**front.chosen, "hosted_lab": "ours"})
    front.store.submit(lambda tx: tx.execute("UPDATE lab SET suspended_s = 1")).result(10)
    ann = Browser(told)
    ann.sign_in("ann@example.org")
    page = ann.get("/research").text
    assert "It is suspended now." in page
    assert "lab.example.org" not in page
