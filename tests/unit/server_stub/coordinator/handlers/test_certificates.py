"""Certificates say what the ledger says, to those who have the code."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from gpugoblin.errors import CoordinatorError, WireError
from gpugoblin.wire.messages.receipt import ReceiptBatch
from gpugoblin.wire.signing import verify_json
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import certificates, node, people
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.ledger import day_of
from server_stub.coordinator.web.public import iso_day
from tests.helpers.coordinator import Desk, Lab
from tests.helpers.coordinator_people import person

DAY_S = 86_400.0


def earn(desk: Desk, lab: Lab, name: str = "ann") -> None:
    device = desk.device(name)
    batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
    desk.ask(node.receipts, lab.key, batch, "192.0.2.9")


def issue(desk: Desk, who: Person, lab: Lab, since: int = 0, until: int = 0) -> str:
    """For the days from `since` to `until`, counted from today."""
    today = day_of(desk.now_s)
    return certificates.issue(
        desk.tx, desk.now_s, desk.rng, who, lab.name, iso_day(today + since),
        iso_day(today + until),
    )  # fmt: skip


def refused(desk: Desk, lab: str, since: str, until: str) -> str:
    with pytest.raises(CoordinatorError) as caught:
        certificates.issue(desk.tx, desk.now_s, desk.rng, person(desk), lab, since, until)
    return caught.value.code


def test_it_says_what_was_verified_in_these_days_for_this_lab(desk: Desk) -> None:
    lab, other = desk.lab(), desk.lab("lab-b", wants=0)
    earn(desk, lab)
    desk.now_s += DAY_S
    lab.demand(100)
    earn(desk, lab)
    earn(desk, lab)
    earn(desk, lab, "bob")
    other.demand(100)
    lab.demand(0)
    earn(desk, other)
    ann = person(desk)
    both = certificates.find(desk.tx, issue(desk, ann, lab, -1))
    assert (both.name, both.lab, both.units, both.receipts) == ("ann", "lab-a", 7.5, 3)
    assert (both.since_day, both.until_day) == (both.issued_day - 1, both.issued_day)
    assert certificates.find(desk.tx, issue(desk, ann, lab)).units == 5.0
    assert certificates.find(desk.tx, issue(desk, ann, lab, -1, -1)).units == 2.5
    assert [(name, first) for _, name, first in certificates.labs_of(desk.tx, ann.account)] == [
        ("lab-a", both.since_day), ("lab-b", both.until_day),
    ]  # fmt: skip


def test_the_same_is_certified_once_and_stays_as_it_was(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    ann = person(desk)
    code = issue(desk, ann, lab)
    assert issue(desk, ann, lab) == code
    earn(desk, lab)
    later = issue(desk, ann, lab)
    assert later != code
    assert [certificates.find(desk.tx, one).units for one in (code, later)] == [2.5, 5.0]
    assert len(certificates.own(desk.tx, ann.account)) == 2
    actions = [row[2:] for row in audit.latest(desk.tx, 100) if row[3] == "certificate_issue"]
    assert actions == 2 * [(ann.account, "certificate_issue", lab.name)]


def test_the_code_is_read_in_any_spelling(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    code = issue(desk, person(desk), lab)
    found = certificates.find(desk.tx, f" {code.lower().replace('-', ' ')}\n")
    assert found.code == code


@pytest.mark.parametrize("code", ["", "-", "BCDF-GHJK-LMNP-QRST", "x" * 5000, "\u0130" * 16, "'"])
def test_other_codes_are_of_none(desk: Desk, code: str) -> None:
    with pytest.raises(CoordinatorError, match="certificate_unknown"):
        certificates.find(desk.tx, code)


def test_the_seal_is_checked_with_the_public_key_alone(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    one = certificates.find(desk.tx, issue(desk, person(desk), lab))
    seal = bytes.fromhex(certificates.seal(desk.house, one))
    verify_json(desk.house.public_key, one, seal)
    for changed in ({"micro_units": one.micro_units + 1}, {"name": "bob"}, {"since_day": 0}):
        with pytest.raises(WireError, match="document_signature_wrong"):
            verify_json(desk.house.public_key, msgspec.structs.replace(one, **changed), seal)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("", ""),
        ("2026-09-22", "2026-09-20"),
        ("2026-09-20", "2036-09-20"),
        ("1969-12-31", "2026-09-20"),
        ("0001-01-01", "2026-09-20"),
        ("2026-02-30", "2026-09-20"),
        ("x" * 5000, "2026-09-20"),
    ],
)
def test_days_that_are_none(desk: Desk, since: str, until: str) -> None:
    lab = desk.lab()
    earn(desk, lab)
    assert refused(desk, lab.name, since, until) == "certificate_days_wrong"


def test_nothing_is_certified_where_nothing_was_done(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab, "bob")
    today = iso_day(day_of(desk.now_s))
    assert refused(desk, lab.name, today, today) == "certificate_empty"
    assert refused(desk, "lab_unknown", today, today) == "certificate_empty"


def test_their_number_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MAX_CERTIFICATES", 1)
    lab = desk.lab()
    earn(desk, lab)
    ann = person(desk)
    issue(desk, ann, lab)
    with pytest.raises(CoordinatorError, match="certificates_crowded"):
        issue(desk, ann, lab, -1)
    issue(desk, ann, lab)


def test_only_ones_own_is_found_as_such(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    code = issue(desk, person(desk), lab)
    assert certificates.find_own(desk.tx, person(desk).account, code).code == code
    with pytest.raises(CoordinatorError, match="certificate_unknown"):
        certificates.find_own(desk.tx, person(desk, "bob").account, code)


def test_they_keep_the_name_of_their_day_and_end_with_the_account(desk: Desk) -> None:
    lab = desk.lab()
    earn(desk, lab)
    ann = person(desk)
    code = issue(desk, ann, lab)
    people.change(desk.tx, desk.now_s, ann, "anna", "en", False)
    ann = dataclasses.replace(ann, name="anna")
    assert certificates.find(desk.tx, code).name == "ann"
    assert people.export(desk.tx, desk.now_s, ann)["certificates"][0]["code"] == code
    people.close(desk.tx, desk.now_s, ann)
    with pytest.raises(CoordinatorError, match="certificate_unknown"):
        certificates.find(desk.tx, code)
