"""One's own account: nobody reaches another's, and deletion leaves no name."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.messages.receipt import ReceiptBatch
from server_stub.coordinator import ledger
from server_stub.coordinator.handlers import node, people
from tests.helpers.coordinator import Desk, Lab
from tests.helpers.coordinator_people import person


def earn(desk: Desk, lab: Lab, name: str = "ann") -> str:
    device = desk.device(name)
    batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
    desk.ask(node.receipts, lab.key, batch, "192.0.2.9")
    return device.name


def test_machines_show_their_work(desk: Desk) -> None:
    device = earn(desk, desk.lab())
    (found,) = people.machines(desk.tx, desk.now_s, person(desk).account)
    assert (found.device, found.cards, found.labs, found.units) == (device, 1, ("lab-a",), 2.5)


def test_days_and_units_are_those_of_the_ledger(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    earn(desk, lab)
    earn(desk, lab, "bob")
    ann = person(desk)
    (day,) = people.days(desk.tx, ann.account, 0)
    assert (day.lab, day.units, day.receipts) == ("lab-a", 5.0, 2)
    assert day.day == ledger.day_of(desk.now_s)
    assert people.units_of(desk.tx, ann.account) == 5.0


def test_only_ones_own_machine_is_revoked(desk: Desk) -> None:
    device = desk.device("bob")
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        people.revoke_machine(desk.tx, desk.now_s, person(desk), device.name)
    people.revoke_machine(desk.tx, desk.now_s, person(desk, "bob"), device.name)
    (found,) = people.machines(desk.tx, desk.now_s, person(desk, "bob").account)
    assert found.revoked_s == desk.now_s


@pytest.mark.parametrize("name", ["", "Ann", "a b", "former-x", "x" * 65, "é"])
def test_names_of_another_form(desk: Desk, name: str) -> None:
    with pytest.raises(CoordinatorError, match="coordinator_name_malformed"):
        people.change(desk.tx, desk.now_s, person(desk), name, "en", False)


def test_leaders_are_listed_by_choice(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    earn(desk, lab, "bob")
    people.change(desk.tx, desk.now_s, person(desk), "ann", "fr", True)
    assert people.leaders(desk.tx, 10) == [("ann", 2.5)]


def test_closing_leaves_sums_and_no_name(desk: Desk) -> None:
    earn(desk, desk.lab())
    ann = person(desk)
    people.close(desk.tx, desk.now_s, ann)
    assert ledger.audit_ledger(desk.tx) == []
    rows = desk.tx.rows("SELECT * FROM account")
    assert "example.org" not in str(rows)
    assert not any(row[1] == "ann" for row in rows)
    assert all(one.revoked_s for one in people.machines(desk.tx, desk.now_s, ann.account))
    assert people.leaders(desk.tx, 10) == []


def test_export_can_be_written_as_json(desk: Desk) -> None:
    device = earn(desk, desk.lab())
    found = json.loads(json.dumps(people.export(desk.tx, desk.now_s, person(desk))))
    assert found["machines"][0]["device"] == device
    assert found["credits"][0]["units"] == 2.5
    assert asdict(people.machines(desk.tx, desk.now_s, person(desk).account)[0])["cards"] == 1


def test_closing_ends_devices_beyond_those_that_are_listed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "MAX_MACHINES", 1)
    for _ in range(3):
        desk.device("ann")
    people.close(desk.tx, desk.now_s, person(desk))
    assert desk.tx.rows("SELECT device FROM device WHERE revoked_s IS NULL") == []


def owned_lab(desk: Desk) -> Lab:
    """A lab that came of an application of ann's."""
    lab = desk.lab()
    ann = person(desk)
    desk.tx.execute(
        "INSERT INTO application (application, account, person, affiliation, words_project,"
        " words_purpose, words_ethics, state, created_s)"
        " VALUES ('application_1', ?, 'Ann', 'U', 'p', 'p', 'e', 'approved', ?)",
        ann.account, desk.now_s,
    )  # fmt: skip
    desk.tx.execute("UPDATE lab SET application = 'application_1', words_public = 'by Ann'")
    return lab


def test_closing_suspends_the_labs_and_ends_their_grants(desk: Desk) -> None:
    lab = owned_lab(desk)
    device = desk.device("bob")
    device.grant()
    people.close(desk.tx, desk.now_s, person(desk))
    row = desk.tx.row("SELECT suspended_s, words_public FROM lab WHERE lab = ?", lab.name)
    assert row == (desk.now_s, "")
    assert desk.tx.rows("SELECT 1 FROM card_grant WHERE revoked_s IS NULL") == []
    assert device.contact((1,)).grants == ()


def test_closing_leaves_no_code_to_the_mailbox(desk: Desk) -> None:
    ann = person(desk)
    desk.tx.execute(
        "INSERT INTO login_code (ask, mailbox, code, language, tries_left, expires_s)"
        " VALUES ('a', ?, 'c', 'en', 5, ?)",
        ann.mailbox, desk.now_s + 600,
    )  # fmt: skip
    people.close(desk.tx, desk.now_s, ann)
    assert desk.tx.rows("SELECT mailbox FROM login_code") == []


def test_the_export_has_labs_reports_and_grants(desk: Desk) -> None:
    lab = owned_lab(desk)
    device = desk.device("ann")
    grant = device.grant()
    ann = person(desk)
    desk.tx.execute(
        "INSERT INTO abuse_report (report, account, words_report, created_s)"
        " VALUES ('report_1', ?, 'what I saw', ?)",
        ann.account, desk.now_s,
    )  # fmt: skip
    found = people.export(desk.tx, desk.now_s, ann)
    assert [one["lab"] for one in found["labs"]] == [lab.name]
    assert [one["words_report"] for one in found["reports"]] == ["what I saw"]
    assert [(one["device"], one["expires_s"]) for one in found["grants"]] == [
        (device.name, grant.exp)
    ]
    assert found["account"]["role"] == "contributor"
