"""The labs' counts of cards, kept without counting."""

from __future__ import annotations

import random

import pytest

from gpugoblin.ids import GrantId
from server_stub.coordinator.handlers.contact import live_s
from server_stub.coordinator.handlers.grants import padded
from server_stub.coordinator.handlers.operator import revoke_device, revoke_grant
from tests.helpers.coordinator import Desk


def counted(desk: Desk) -> dict[str, int]:
    """What the labs' counts say, without what the next batch takes out."""
    held = dict(desk.tx.rows("SELECT lab, cards_held FROM lab"))
    for (lab,) in desk.tx.rows(
        "SELECT lab FROM card_grant WHERE counted_until_s <= ?", desk.now_s
    ):  # fmt: skip
        held[lab] -= 1
    return held


def by_definition(desk: Desk) -> dict[str, int]:
    """The same, counted from all grants."""
    held = dict.fromkeys(counted(desk), 0)
    held.update(desk.tx.rows(
        "SELECT lab, COUNT(*) FROM (SELECT DISTINCT lab, device, card FROM card_grant"
        " WHERE expires_s > ? AND seen_s > ? AND revoked_s IS NULL AND released_s IS NULL) AS live"
        " GROUP BY lab",
        desk.now_s, desk.now_s - live_s(desk.house.settings),
    ))  # fmt: skip
    return held


@pytest.mark.parametrize("seed", range(4))
def test_the_count_is_what_counting_finds(desk: Desk, seed: int) -> None:
    rng = random.Random(seed)
    labs = [desk.lab(f"lab-{letter}") for letter in "abc"]
    devices = [desk.device(f"owner-{number}") for number in range(4)]
    holding: dict[str, dict[int, GrantId]] = {device.name: {} for device in devices}
    most = 0
    for _ in range(60):
        desk.now_s += rng.choice((1, 60, 300, 1000, 3000))
        for lab in labs:
            lab.demand(rng.choice((0, 2, 5)))
        device = rng.choice(devices)
        cards = holding[device.name]
        for card in [one for one in cards if rng.random() < 0.2]:
            del cards[card]
        wants = tuple(card for card in range(3) if card not in cards or rng.random() < 0.3)
        kept = tuple(cards.values())
        reply = device.contact(wants, kept)
        for card in [card for card, grant in cards.items() if grant in reply.revoked]:
            del cards[card]
        for offer in reply.grants:
            if rng.random() < 0.7:  # else the reply is lost
                cards[offer.card] = device.verified(offer.ticket, offer.lab).jti
        assert counted(desk) == by_definition(desk)
        most = max(most, sum(counted(desk).values()))
    assert most > 3, "nothing was counted"


def test_what_is_revoked_counts_no_longer(desk: Desk) -> None:
    lab, device, other = desk.lab(), desk.device(), desk.device("bob")
    grant = device.grant()
    other.grant()
    assert counted(desk) == {lab.name: 2}
    revoke_grant(desk.tx, desk.now_s, grant.jti)
    revoke_grant(desk.tx, desk.now_s, grant.jti)
    assert counted(desk) == {lab.name: 1}
    revoke_device(desk.tx, desk.now_s, other.name)  # type: ignore[arg-type] - a device's id
    assert counted(desk) == {lab.name: 0}


def test_a_card_goes_back_to_the_lab_that_it_worked_for(desk: Desk) -> None:
    first = desk.lab("lab-a")
    device = desk.device()
    device.grant()
    second = desk.lab("lab-b", weight=2.0)
    desk.now_s += 86_400
    for lab in (first, second):
        lab.demand(5)
    assert device.contact((0,)).grants[0].lab == first.name
    desk.now_s += 8 * 86_400
    second.demand(5)
    first.demand(5)
    assert device.contact((0,)).grants[0].lab == second.name, "remembered for too long"


def test_lists_have_few_lengths() -> None:
    assert padded(["a"]) == ("?", ["a"])
    assert padded(["a", "b", "c"]) == ("?, ?, ?, ?", ["a", "b", "c", "c"])
    assert len(padded([b"x"] * 33)[1]) == 64
