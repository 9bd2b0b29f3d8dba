"""The hosted lab is one that is registered, and none unless it is named."""

from __future__ import annotations

import dataclasses

from server_stub.coordinator.handlers import applications
from server_stub.coordinator.handlers.hosted import hosted
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_people import person
from tests.unit.server_stub.coordinator.handlers.test_applications import apply, lab, someone


def test_there_is_none_by_default_nor_under_a_name_that_nobody_has(desk: Desk) -> None:
    desk.lab("ours")
    assert hosted(desk.house, desk.tx) is None
    for name in ("our", "ours ", "lab-a", "%"):
        other = Desk(desk.tx, hosted_lab=name)
        assert hosted(other.house, desk.tx) is None


def test_it_is_told_as_it_is_registered(desk: Desk) -> None:
    own = desk.lab("ours", certificate_sha256="cd" * 32)
    house = Desk(desk.tx, hosted_lab="ours").house
    found = hosted(house, desk.tx)
    assert found == (own.name, "ours", "https://127.0.0.1:9000", "cd" * 32, False)
    boss = dataclasses.replace(person(desk, "boss"), role="operator")
    applications.suspend_lab(desk.tx, desk.now_s, boss, own.name, True)
    found = hosted(house, desk.tx)
    assert found is not None
    assert found.is_suspended


def test_a_researcher_who_takes_the_name_first_is_not_it(desk: Desk) -> None:
    """The pages would call that node the operator's, and send others' data there."""
    desk = Desk(desk.tx, hosted_lab="ours")
    mallory, boss = someone(desk, "mallory"), someone(desk, "boss", "operator")
    application = apply(desk, mallory)
    applications.decide(desk.tx, desk.now_s, boss, application, True, "Welcome")
    applications.register_lab(
        desk.tx, desk.now_s, desk.rng, mallory, application, lab("ours", "ee" * 32)
    )
    assert hosted(desk.house, desk.tx) is None
