"""The pages that anyone may read show what the database holds."""

from __future__ import annotations

from server_stub.coordinator.web.public import day_names
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
