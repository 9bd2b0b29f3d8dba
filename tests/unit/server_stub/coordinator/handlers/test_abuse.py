"""Reports of abuse."""

from __future__ import annotations

import pytest

from gpugoblin.errors import CoordinatorError
from server_stub.coordinator.handlers import abuse
from tests.helpers.coordinator import Desk
from tests.unit.server_stub.coordinator.handlers.test_applications import someone

WORDS = "It computes something else than it says."


def send(desk: Desk, lab: str = "", words: str = WORDS, address: str = "192.0.2.1") -> str:
    return abuse.report(desk.house, desk.tx, desk.now_s, desk.rng, None, address, lab, words)


def test_anyone_may_write_and_an_operator_closes(desk: Desk) -> None:
    boss, ann = someone(desk, "boss", "operator"), someone(desk, "ann")
    number = send(desk, desk.lab().name)
    (found,) = abuse.open_reports(desk.tx)
    assert (found.report, found.lab, found.words) == (number, "lab-a", WORDS)
    with pytest.raises(CoordinatorError, match="operator_only"):
        abuse.close(desk.tx, desk.now_s, ann, number)
    abuse.close(desk.tx, desk.now_s, boss, number)
    assert abuse.open_reports(desk.tx) == []
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        abuse.close(desk.tx, desk.now_s, boss, number)


def test_an_unknown_lab(desk: Desk) -> None:
    with pytest.raises(CoordinatorError, match="coordinator_subject_unknown"):
        send(desk, "lab_nothing")


def test_one_network_cannot_fill_the_inbox(desk: Desk) -> None:
    for _ in range(5):
        send(desk)
    with pytest.raises(CoordinatorError, match="coordinator_rate_limited"):
        send(desk)
    send(desk, address="198.51.100.1")
    desk.now_s += 600
    send(desk)


def test_too_short_to_be_of_use(desk: Desk) -> None:
    with pytest.raises(CoordinatorError, match="words_too_short"):
        send(desk, words="bad")


def test_all_networks_together_cannot_fill_it_either(desk: Desk) -> None:
    for count in range(500):
        send(desk, address=f"198.{18 + count // 250}.{count % 250}.1")
    with pytest.raises(CoordinatorError, match="coordinator_rate_limited"):
        send(desk, address="203.0.113.1")
    desk.now_s += 60
    send(desk, address="203.0.113.1")
