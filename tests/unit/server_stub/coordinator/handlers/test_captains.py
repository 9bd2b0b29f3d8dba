"""The rights of a captain, and of nobody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import captains, people, teams
from server_stub.coordinator.handlers.signin import Person
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_people import person

Act = Callable[[Desk, Person, str], None]

ACTS: dict[str, Act] = {
    "remove": lambda desk, who, name: captains.remove(desk.tx, desk.now_s, desk.rng, who, name),
    "hand_over": lambda desk, who, name: captains.hand_over(desk.tx, desk.now_s, who, name),
    "new_code": lambda desk, who, name: captains.new_code(desk.tx, desk.now_s, desk.rng, who),
}
NAMED = [act for act in ACTS if act != "new_code"]


def code_of(desk: Desk, who: Person) -> str:
    return teams.code_of(desk.tx, who.account)


def join(desk: Desk, who: Person, code: str) -> None:
    desk.now_s += 1
    teams.join(desk.tx, desk.now_s, who, code)


def moss(desk: Desk) -> tuple[Person, Person, Person]:
    """A team: its captain, and two who joined one after the other."""
    ann, bob, cat = (person(desk, name) for name in ("ann", "bob", "cat"))
    teams.create(desk.tx, desk.now_s, desk.rng, ann, "moss")
    for who in (cat, bob):
        join(desk, who, code_of(desk, ann))
    return ann, bob, cat


def names(desk: Desk) -> list[str]:
    return [
        row[0]
        for row in desk.tx.rows(
            "SELECT account.name FROM team JOIN account ON captain = account.account ORDER BY team"
        )
    ]


def refused(desk: Desk, act: str, who: Person, name: str) -> str:
    before = desk.tx.rows("SELECT * FROM team"), desk.tx.rows("SELECT * FROM team_member")
    with pytest.raises(CoordinatorError) as caught:
        ACTS[act](desk, who, name)
    assert before == (desk.tx.rows("SELECT * FROM team"), desk.tx.rows("SELECT * FROM team_member"))
    return caught.value.code


@pytest.mark.parametrize("act", ACTS)
def test_members_strangers_and_former_captains_may_not(desk: Desk, act: str) -> None:
    ann, bob, cat = moss(desk)
    dan = person(desk, "dan")
    for who in (bob, dan):
        assert refused(desk, act, who, "cat") == "team_captain_only"
        assert captains.members(desk.tx, who) == ()
    captains.hand_over(desk.tx, desk.now_s, ann, "bob")
    assert refused(desk, act, ann, "cat") == "team_captain_only"
    captains.hand_over(desk.tx, desk.now_s, bob, "ann")
    teams.leave(desk.tx, desk.now_s, ann.account)
    assert refused(desk, act, ann, "cat") == "team_captain_only"
    assert names(desk) == [cat.name]


@pytest.mark.parametrize("act", NAMED)
def test_only_other_members_of_the_team_are_meant(desk: Desk, act: str) -> None:
    ann, bob, _ = moss(desk)
    dan = person(desk, "dan")
    teams.create(desk.tx, desk.now_s, desk.rng, dan, "fern")
    teams.leave(desk.tx, desk.now_s, bob.account)
    for name in ("ann", "dan", "bob", "nobody", "", "x" * 5000, "%"):
        assert refused(desk, act, ann, name) == "coordinator_subject_unknown"


def test_a_captain_sees_who_is_in_and_not_what_they_did(desk: Desk) -> None:
    ann, bob, _ = moss(desk)
    assert captains.is_captain(desk.tx, ann.account)
    assert not captains.is_captain(desk.tx, bob.account)
    assert captains.members(desk.tx, ann) == ("bob", "cat")
    teams.leave(desk.tx, desk.now_s, bob.account)
    assert captains.members(desk.tx, ann) == ("cat",)


def test_who_is_removed_is_out_and_does_not_come_back_with_the_code(desk: Desk) -> None:
    ann, bob, _ = moss(desk)
    old = code_of(desk, bob)
    desk.tx.execute("UPDATE team_member SET micro_units = 7 WHERE account = ?", bob.account)
    captains.remove(desk.tx, desk.now_s, desk.rng, ann, "bob")
    assert teams.own(desk.tx, bob.account) is None
    assert (teams.find(desk.tx, "moss").members, teams.find(desk.tx, "moss").units) == (2, 7e-6)
    with pytest.raises(CoordinatorError, match="team_code_unknown"):
        join(desk, bob, old)
    assert [row[2:] for row in audit.latest(desk.tx, 1)] == [
        (ann.account, "team_remove", bob.account)
    ]
    join(desk, bob, code_of(desk, ann))
    assert captains.members(desk.tx, ann) == ("bob", "cat")


def test_a_new_code_replaces_the_old_one(desk: Desk) -> None:
    ann, _, _ = moss(desk)
    old = code_of(desk, ann)
    captains.new_code(desk.tx, desk.now_s, desk.rng, ann)
    assert code_of(desk, ann) != old
    with pytest.raises(CoordinatorError, match="team_code_unknown"):
        join(desk, person(desk, "dan"), old)
    join(desk, person(desk, "dan"), code_of(desk, ann))


def test_a_captain_who_leaves_is_followed_by_the_longest_member(desk: Desk) -> None:
    ann, bob, cat = moss(desk)
    teams.leave(desk.tx, desk.now_s, ann.account)
    assert names(desk) == ["cat"]
    people.close(desk.tx, desk.now_s, replace(cat, signed_in_s=desk.now_s))
    assert names(desk) == ["bob"]
    join(desk, ann, code_of(desk, bob))
    assert names(desk) == ["bob"]


def test_who_joins_an_empty_team_is_its_captain(desk: Desk) -> None:
    ann, bob = person(desk), person(desk, "bob")
    teams.create(desk.tx, desk.now_s, desk.rng, ann, "moss")
    code = code_of(desk, ann)
    desk.tx.execute("UPDATE team_member SET micro_units = 7")
    teams.leave(desk.tx, desk.now_s, ann.account)
    assert names(desk) == []
    join(desk, bob, code)
    assert names(desk) == ["bob"]


def test_teams_from_before_have_the_longest_member_as_captain(desk: Desk) -> None:
    from server_stub.coordinator.dialects import SQLITE, statements
    from server_stub.coordinator.schema import MIGRATIONS

    moss(desk)
    desk.tx.execute("UPDATE team SET captain = NULL")
    (_, fill) = statements(MIGRATIONS[5], SQLITE)
    desk.tx.execute(fill)
    assert names(desk) == ["ann"]
