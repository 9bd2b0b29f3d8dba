"""Applications and what comes of them."""

from __future__ import annotations

import pytest

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AccountId
from server_stub.coordinator.handlers import applications
from server_stub.coordinator.handlers.operator import NewLab
from server_stub.coordinator.handlers.signin import Person
from tests.helpers.coordinator import Desk

GIVEN = {
    "person": "Ann Example",
    "affiliation": "University",
    "project": "We fold proteins of public structures.",
    "purpose": "A network of forty million parameters.",
    "ethics": "Public structures only.",
}


def someone(desk: Desk, name: str, role: str = "contributor") -> Person:
    account = desk.account(name)
    desk.tx.execute(
        "UPDATE account SET mailbox = ?, role = ? WHERE account = ?", f"{name}@x.org", role, account
    )
    return Person(
        AccountId(account), name, f"{name}@x.org", role, "en", False, desk.now_s, desk.now_s
    )


def apply(desk: Desk, who: Person, **changed: str) -> str:
    return applications.apply(desk.tx, desk.now_s, desk.rng, who, {**GIVEN, **changed})


def lab(name: str = "proteins", key: str = "ab" * 32) -> NewLab:
    return NewLab(name, key, "https://lab.example.org:8441")


@pytest.mark.parametrize("field", sorted(GIVEN))
def test_every_field_is_needed_and_bounded(desk: Desk, field: str) -> None:
    ann = someone(desk, "ann")
    for text in ("", "x" * 5000):
        with pytest.raises(CoordinatorError, match="words_too") as caught:
            apply(desk, ann, **{field: text})
        assert caught.value.fields["field"] == field


def test_so_many_may_wait(desk: Desk) -> None:
    ann = someone(desk, "ann")
    first = apply(desk, ann)
    for _ in range(applications.MAX_WAITING - 1):
        apply(desk, ann)
    with pytest.raises(CoordinatorError, match="application_crowded"):
        apply(desk, ann)
    applications.withdraw(desk.tx, desk.now_s, ann, first)
    apply(desk, ann)


def test_only_operators_decide_and_only_once(desk: Desk) -> None:
    ann, boss = someone(desk, "ann"), someone(desk, "boss", "operator")
    number = apply(desk, ann)
    with pytest.raises(CoordinatorError, match="operator_only"):
        applications.decide(desk.tx, desk.now_s, ann, number, True, "")
    applications.decide(desk.tx, desk.now_s, boss, number, False, "No.")
    with pytest.raises(CoordinatorError, match="application_not_waiting"):
        applications.decide(desk.tx, desk.now_s, boss, number, True, "")
    assert applications.find(desk.tx, number).state == "declined"


def test_nobody_withdraws_anothers(desk: Desk) -> None:
    ann, bob = someone(desk, "ann"), someone(desk, "bob")
    with pytest.raises(CoordinatorError, match="application_not_waiting"):
        applications.withdraw(desk.tx, desk.now_s, bob, apply(desk, ann))


def test_a_lab_comes_of_an_approved_application_of_ones_own(desk: Desk) -> None:
    ann, bob = someone(desk, "ann"), someone(desk, "bob")
    boss = someone(desk, "boss", "operator")
    number = apply(desk, ann)
    for who in (ann, bob):
        with pytest.raises(CoordinatorError, match="application_not_approved"):
            applications.register_lab(desk.tx, desk.now_s, desk.rng, who, number, lab())
    applications.decide(desk.tx, desk.now_s, boss, number, True, "")
    with pytest.raises(CoordinatorError, match="application_not_approved"):
        applications.register_lab(desk.tx, desk.now_s, desk.rng, bob, number, lab())
    applications.register_lab(desk.tx, desk.now_s, desk.rng, ann, number, lab())
    (found,) = applications.labs(desk.tx, desk.now_s)
    assert (found.name, found.words) == ("proteins", GIVEN["project"])
    assert [row[1] for row in applications.own_labs(desk.tx, ann.account)] == ["proteins"]


def test_an_application_has_so_many_labs(desk: Desk) -> None:
    ann, boss = someone(desk, "ann"), someone(desk, "boss", "operator")
    number = apply(desk, ann)
    applications.decide(desk.tx, desk.now_s, boss, number, True, "")
    for place in range(applications.MAX_LABS):
        new = lab(f"lab-{place}", f"{place:064x}")
        applications.register_lab(desk.tx, desk.now_s, desk.rng, ann, number, new)
    with pytest.raises(CoordinatorError, match="labs_crowded"):
        applications.register_lab(desk.tx, desk.now_s, desk.rng, ann, number, lab())


def test_a_suspended_lab_gets_no_cards_and_loses_those_it_has(desk: Desk) -> None:
    boss = someone(desk, "boss", "operator")
    place, device = desk.lab(), desk.device()
    grant = device.grant()
    applications.suspend_lab(desk.tx, desk.now_s, boss, place.name, True)
    reply = device.contact((0,), holding=(grant.jti,))
    assert reply.grants == ()
    assert reply.revoked == (grant.jti,)
    applications.suspend_lab(desk.tx, desk.now_s, boss, place.name, False)
    assert len(device.contact((0,)).grants) == 1


def test_lists_by_account_and_state(desk: Desk) -> None:
    ann, bob = someone(desk, "ann"), someone(desk, "bob")
    first, second = apply(desk, ann), apply(desk, bob)
    applications.withdraw(desk.tx, desk.now_s, bob, second)
    assert [one.application for one in applications.applications(desk.tx)] == [first, second]
    found = applications.applications(desk.tx, account=bob.account)
    assert [one.state for one in found] == ["withdrawn"]
    assert len(applications.applications(desk.tx, state="waiting")) == 1


def test_applying_and_withdrawing_has_an_end(desk: Desk) -> None:
    ann = someone(desk, "ann")
    someone(desk, "boss", "operator")
    for _ in range(6):
        applications.withdraw(desk.tx, desk.now_s, ann, apply(desk, ann))
    with pytest.raises(CoordinatorError, match="coordinator_rate_limited"):
        apply(desk, ann)
    assert desk.tx.row("SELECT COUNT(*) FROM mail") == (6,)
