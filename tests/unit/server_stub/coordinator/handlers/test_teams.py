"""Teams: who gets in, what counts for which, and what others see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.messages.receipt import ReceiptBatch
from server_stub.coordinator import audit, ledger
from server_stub.coordinator.handlers import node, people, teams
from server_stub.coordinator.handlers.signin import Person
from tests.helpers.coordinator import Desk, Lab
from tests.helpers.coordinator_people import person


def earn(desk: Desk, lab: Lab, name: str) -> None:
    device = desk.device(name)
    batch = ReceiptBatch(lab.name, (lab.receipt(device, device.grant()),))
    desk.ask(node.receipts, lab.key, batch, "192.0.2.9")


def create(desk: Desk, who: Person, name: str = "moss") -> str:
    return teams.create(desk.tx, desk.now_s, desk.rng, who, name)


def refused(desk: Desk, who: Person, *, name: str = "", code: str = "") -> str:
    try:
        if name:
            create(desk, who, name)
        else:
            teams.join(desk.tx, desk.now_s, who, code)
    except CoordinatorError as error:
        return error.code
    raise AssertionError("it was accepted")


def test_one_makes_it_and_another_joins_by_its_code(desk: Desk) -> None:
    ann, bob = person(desk), person(desk, "bob")
    team = create(desk, ann)
    code = teams.code_of(desk.tx, ann.account)
    teams.join(desk.tx, desk.now_s, bob, f" {code.lower().replace('-', '')} ")
    found = teams.own(desk.tx, bob.account)
    assert found == teams.find(desk.tx, "moss")
    assert found is not None
    assert (found.members, found.units, found.names) == (2, 0.0, ())
    rows = [row[2:] for row in reversed(audit.latest(desk.tx, 2))]
    assert rows == [(ann.account, "team_create", team), (bob.account, "team_join", team)]


def test_work_counts_for_the_team_of_its_moment_and_stays_there(desk: Desk) -> None:
    lab = desk.lab()
    ann, bob = person(desk), person(desk, "bob")
    earn(desk, lab, "ann")
    create(desk, ann)
    code = teams.code_of(desk.tx, ann.account)
    teams.join(desk.tx, desk.now_s, bob, code)
    earn(desk, lab, "ann")
    earn(desk, lab, "bob")
    earn(desk, lab, "cat")
    assert teams.find(desk.tx, "moss").units == 5.0
    assert teams.leave(desk.tx, desk.now_s, bob.account)
    earn(desk, lab, "bob")
    create(desk, bob, "fern")
    earn(desk, lab, "bob")
    earn(desk, lab, "bob")
    assert [(one.name, one.members, one.units) for one in teams.ranked(desk.tx, 10)] == [
        ("fern", 1, 5.0), ("moss", 1, 5.0),
    ]  # fmt: skip
    teams.leave(desk.tx, desk.now_s, bob.account)
    teams.join(desk.tx, desk.now_s, bob, code)
    earn(desk, lab, "bob")
    assert [(one.name, one.members, one.units) for one in teams.ranked(desk.tx, 1)] == [
        ("moss", 2, 7.5)
    ]
    assert ledger.audit_ledger(desk.tx) == []


def test_names_are_shown_of_those_who_chose_it_alone(desk: Desk) -> None:
    lab = desk.lab()
    ann, bob = person(desk), person(desk, "bob")
    create(desk, ann)
    teams.join(desk.tx, desk.now_s, bob, teams.code_of(desk.tx, ann.account))
    earn(desk, lab, "ann")
    people.change(desk.tx, desk.now_s, bob, "bob", "en", True)
    found = teams.find(desk.tx, "moss")
    assert (found.members, found.names) == (2, ("bob",))
    people.change(desk.tx, desk.now_s, bob, "bob", "en", False)
    assert teams.find(desk.tx, "moss").names == ()


def test_one_is_in_one_team_at_most(desk: Desk) -> None:
    ann, bob = person(desk), person(desk, "bob")
    create(desk, ann)
    create(desk, bob, "fern")
    assert refused(desk, ann, name="third") == "team_joined"
    assert refused(desk, ann, code=teams.code_of(desk.tx, bob.account)) == "team_joined"


def test_codes_and_names_that_are_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = person(desk), person(desk, "bob")
    create(desk, ann)
    for code in ("", "BCDF-GHJK-LMNP-QRST", "x" * 5000, "%"):
        assert refused(desk, bob, code=code) == "team_code_unknown"
    assert refused(desk, bob, name="moss") == "coordinator_name_taken"
    for name in ("Moss", "a b", "x" * 65, "é", "moss\n"):
        assert refused(desk, bob, name=name) == "coordinator_name_malformed"
    monkeypatch.setattr(teams, "MAX_MEMBERS", 1)
    assert refused(desk, bob, code=teams.code_of(desk.tx, ann.account)) == "team_full"
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        teams.find(desk.tx, "fern")


def test_a_team_that_is_left_with_nothing_frees_its_name(desk: Desk) -> None:
    lab, ann = desk.lab(), person(desk)
    create(desk, ann)
    assert teams.leave(desk.tx, desk.now_s, ann.account)
    assert not teams.leave(desk.tx, desk.now_s, ann.account)
    assert teams.ranked(desk.tx, 10) == []
    create(desk, ann)
    earn(desk, lab, "ann")
    teams.leave(desk.tx, desk.now_s, ann.account)
    assert [(one.members, one.units) for one in teams.ranked(desk.tx, 10)] == [(0, 2.5)]
    assert refused(desk, person(desk, "bob"), name="moss") == "coordinator_name_taken"


def test_a_closed_account_leaves_its_team(desk: Desk) -> None:
    lab, ann = desk.lab(), replace(person(desk), is_listed=True)
    people.change(desk.tx, desk.now_s, ann, "ann", "en", True)
    create(desk, ann)
    earn(desk, lab, "ann")
    exported = people.export(desk.tx, desk.now_s, ann)["teams"]
    assert [(one["team"], one["units"], one["until_s"]) for one in exported] == [
        ("moss", 2.5, None)
    ]
    bob = person(desk, "bob")
    teams.join(desk.tx, desk.now_s, bob, teams.code_of(desk.tx, ann.account))
    earn(desk, lab, "bob")
    people.close(desk.tx, desk.now_s, ann)
    found = teams.find(desk.tx, "moss")
    assert (found.members, found.units, found.names) == (1, 5.0, ())
    teams.leave(desk.tx, desk.now_s, bob.account)
    assert teams.find(desk.tx, "moss").units == 5.0
    people.close(desk.tx, desk.now_s, bob)
    assert teams.ranked(desk.tx, 10) == []


def test_a_team_of_one_ends_with_the_account_also_when_it_was_left_before(desk: Desk) -> None:
    lab, ann, bob = desk.lab(), person(desk), person(desk, "bob")
    create(desk, ann, "ann-of-the-hill")
    teams.join(desk.tx, desk.now_s, bob, teams.code_of(desk.tx, ann.account))
    earn(desk, lab, "ann")
    for who in (ann, bob):  # bob did nothing for it
        teams.leave(desk.tx, desk.now_s, who.account)
    create(desk, ann, "ann-alone")
    people.close(desk.tx, desk.now_s, ann)
    assert teams.ranked(desk.tx, 10) == []
    create(desk, bob, "ann-of-the-hill")
    assert ledger.audit_ledger(desk.tx) == []
