"""The hosted lab is one that is registered, and none unless it is named."""

from __future__ import annotations

import dataclasses

from server_stub.coordinator.handlers import applications
from server_stub.coordinator.handlers.hosted import hosted
from tests.helpers.coordinator import Desk
from tests.helpers.coordinator_people import person


def test_there_is_none_by_default_nor_under_a_name_that_nobody_has(desk: Desk) -> None:
    desk.lab("ours")
    assert hosted(desk.house, desk.tx) is None
    for name in ("our", "ours ", "lab-a", "%"):
        other = Desk(desk.tx, hosted_lab=name)
        assert hosted(other.house, desk.tx) is None


def test_it_is_told_as_it_is_registered(desk: Desk) -> None:
    lab = desk.lab("ours", certificate_sha256="cd" * 32)
    house = Desk(desk.tx, hosted_lab="ours").house
    found = hosted(house, desk.tx)
    assert found == (lab.name, "ours", "https://127.0.0.1:9000", "cd" * 32, False)
    boss = dataclasses.replace(person(desk, "boss"), role="operator")
    applications.suspend_lab(desk.tx, desk.now_s, boss, lab.name, True)
    found = hosted(house, desk.tx)
    assert found is not None
    assert found.is_suspended
