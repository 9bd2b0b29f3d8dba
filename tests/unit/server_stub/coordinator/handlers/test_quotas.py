"""Quotas of labs: what is refused, and what a change does to the next cards."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator import audit
from server_stub.coordinator.handlers import quotas
from server_stub.coordinator.handlers.signin import Person
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_people import person


def boss(desk: Desk) -> Person:
    return replace(person(desk, "boss"), role="operator")


def test_a_lower_limit_ends_nothing_and_gives_no_more(desk: Desk) -> None:
    lab = desk.lab()
    device = desk.device()
    held = device.contact((0, 1)).grants
    assert len(held) == 2
    quotas.change(desk.tx, desk.now_s, boss(desk), lab.name, 1.0, 1)
    (found,) = quotas.quotas(desk.tx, desk.now_s)
    assert (found.name, found.max_cards, found.cards_held) == ("lab-a", 1, 2)
    assert desk.tx.rows("SELECT 1 FROM card_grant WHERE revoked_s IS NOT NULL") == []
    assert desk.device("bob").contact((0,)).grants == ()
    quotas.change(desk.tx, desk.now_s, boss(desk), lab.name, 1.0, 3)
    assert len(desk.device("bob").contact((0, 1)).grants) == 1


def test_a_new_weight_counts_for_the_next_cards(desk: Desk) -> None:
    labs = [desk.lab("lab-a"), desk.lab("lab-b")]
    quotas.change(desk.tx, desk.now_s, boss(desk), labs[0].name, 3.0, 100)
    for _ in range(8):
        desk.device(f"ann-{_}").contact((0,))
    held = [(one.name, one.weight, one.cards_held) for one in quotas.quotas(desk.tx, desk.now_s)]
    assert held == [("lab-a", 3.0, 6), ("lab-b", 1.0, 2)]


def test_the_record_keeps_the_new_values(desk: Desk) -> None:
    lab = desk.lab()
    quotas.change(desk.tx, desk.now_s, boss(desk), lab.name, 0.12345, 1_000_000)
    ((_, _, actor, action, subject),) = audit.latest(desk.tx, 1)
    assert (actor, action) == (boss(desk).account, "lab_quota")
    assert subject == f"{lab.name} weight=0.123 cards=1000000"
    assert len(subject) <= 64


@pytest.mark.parametrize(
    ("weight", "most"),
    [(0.0, 1), (0.0001, 1), (-1.0, 1), (1000.5, 1), (math.nan, 1), (math.inf, 1), (1.0, -1),
     (1.0, 1_000_001)],
)  # fmt: skip
def test_values_out_of_range_change_nothing(desk: Desk, weight: float, most: int) -> None:
    lab = desk.lab()
    before = quotas.quotas(desk.tx, desk.now_s)
    with pytest.raises(CoordinatorError, match="quota_malformed"):
        quotas.change(desk.tx, desk.now_s, boss(desk), lab.name, weight, most)
    assert quotas.quotas(desk.tx, desk.now_s) == before


@pytest.mark.parametrize(
    ("weight", "most"),
    [("", "1"), ("one", "1"), ("1", ""), ("1", "1.5"), ("1", "-1"), ("1", "9" * 5000),
     ("1", "\u0663"), ("9" * 5000 + "x", "y")],
)  # fmt: skip
def test_forms_that_hold_no_numbers(weight: str, most: str) -> None:
    with pytest.raises(CoordinatorError, match="quota_malformed"):
        quotas.parse(weight, most)


def test_who_may_change_them_and_of_whom(desk: Desk) -> None:
    lab = desk.lab()
    with pytest.raises(CoordinatorError, match="operator_only"):
        quotas.change(desk.tx, desk.now_s, person(desk), lab.name, 1.0, 1)
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        quotas.change(desk.tx, desk.now_s, boss(desk), "lab_unknown", 1.0, 1)
