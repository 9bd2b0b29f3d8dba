"""Contacts and grants."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import WireError
from gpugoblin.wire.messages.contact import Contact, ContactReply
from gpugoblin.wire.signing import public_key_bytes
from server_stub.coordinator.handlers import contact
from server_stub.coordinator.handlers.operator import revoke_device, revoke_grant
from server_stub.coordinator.house import Caller
from tests.helpers.coordinator import GIB, Desk, Lab, card, memory


def test_a_grant_names_what_the_lab_needs_and_nothing_else(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    desk.now_s += 3 * 86_400 + 5
    lab.demand(5)
    reply = device.contact((2,), kind="cuda")
    (offer,) = reply.grants
    assert (offer.lab, offer.card, offer.address) == (lab.name, 2, "https://127.0.0.1:9000")
    grant = device.verified(offer.ticket, lab.name)
    assert offer.lab_name
    assert offer.lab_name not in repr(grant)
    assert grant.aud == lab.name
    assert grant.exp - grant.iat == 3600
    assert grant.iat == int(desk.now_s)
    assert grant.device_key == public_key_bytes(device.key).hex()
    assert (grant.card, grant.card_class, grant.engine_build) == (2, "cuda", "engine-1")
    assert grant.owner_age_days == 3
    assert grant.max_leases == 4
    account = desk.tx.row("SELECT account FROM account")
    assert account is not None
    for secret in (account[0], device.name, "ann", "192.0.2"):
        assert secret not in repr(grant)


def test_an_offer_says_what_its_lab_says_of_itself(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    for words in ("", "Currents of the North Sea", "x" * 3000):
        desk.tx.execute("UPDATE lab SET words_public = ? WHERE lab = ?", words, lab.name)
        (offer,) = device.contact((0,)).grants
        assert offer.lab_words == words[:1000]


def test_grants_are_for_their_lab_alone(desk: Desk) -> None:
    desk.lab()
    device = desk.device()
    (offer,) = device.contact((0,)).grants
    with pytest.raises(WireError) as caught:
        device.verified(offer.ticket, "lab_b")
    assert caught.value.code == "ticket_wrong_audience"


def test_labs_see_owners_apart_and_cannot_compare_them(desk: Desk) -> None:
    seen: dict[str, list[tuple[str, str]]] = {}
    labs = [desk.lab("lab-a"), desk.lab("lab-b")]
    devices = [
        desk.device("ann", "192.0.2.1"),
        desk.device("ann", "192.0.2.77"),
        desk.device("bob", "198.51.100.1"),
    ]
    for wanting in labs:
        for lab in labs:
            lab.demand(100 if lab is wanting else 0)
        for device in devices:
            grant = device.grant(0 if wanting is labs[0] else 1)
            seen.setdefault(wanting.name, []).append((grant.owner_pseudonym, grant.network_bucket))
    for ann, ann_again, bob in seen.values():
        assert ann == ann_again
        assert ann[0] != bob[0]
        assert ann[1] != bob[1]
    first, second = seen.values()
    assert not {value for pair in first for value in pair} & {v for pair in second for v in pair}


def test_unknown_and_revoked_devices(desk: Desk) -> None:
    stranger = Ed25519PrivateKey.generate()
    assert desk.refused(contact.contact, stranger, Contact(cards=())) == "device_unknown"
    device = desk.device()
    revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type]
    assert desk.refused(contact.contact, device.key, Contact(cards=())) == "device_revoked"


def test_a_lost_reply_gives_the_same_ticket_again(desk: Desk) -> None:
    desk.lab()
    device = desk.device()
    first = device.contact((0,)).grants
    desk.now_s += 30
    assert device.contact((0,)).grants == first
    assert len(desk.tx.rows("SELECT * FROM card_grant")) == 1


def test_a_lost_offer_of_a_lab_without_demand_is_not_repeated(desk: Desk) -> None:
    lab, device = desk.lab(), desk.device()
    device.contact((0,))
    lab.demand(0)
    assert device.contact((0,)).grants == ()
    other = desk.lab("lab-b")
    assert device.contact((0,)).grants[0].lab == other.name


@pytest.mark.parametrize(
    "changed", [{"engine_build": "engine-2"}, {"catalog_hash": "cd" * 32}, {"kind": "vulkan"}]
)
def test_another_engine_gets_another_grant(desk: Desk, changed: dict[str, Any]) -> None:
    desk.lab()
    device = desk.device()
    first = device.grant()
    assert device.grant(**changed).jti != first.jti


def test_renewal_near_the_end(desk: Desk) -> None:
    lab = desk.lab(wants=1)
    device = desk.device()
    first = device.grant()
    desk.now_s += 3000
    lab.demand(1)
    second = device.grant(holding=(first.jti,))
    assert second.jti != first.jti
    assert second.exp == first.exp + 3000
    # Both belong to the one card that the lab wants: another device gets none.
    assert desk.device("bob").contact((0,)).grants == ()


def test_a_held_grant_is_not_offered_again(desk: Desk) -> None:
    desk.lab()
    device = desk.device()
    first = device.grant()
    assert device.grant(holding=(first.jti,)).jti != first.jti


def test_held_grants_that_are_over_are_named(desk: Desk) -> None:
    desk.lab()
    device, other = desk.device(), desk.device()
    first, second, foreign = device.grant(0), device.grant(1), other.grant(0)
    revoke_grant(desk.tx, desk.now_s, first.jti)
    holding = (first.jti, second.jti, foreign.jti, "grant_a")
    assert set(device.contact(holding=holding).revoked) == {first.jti, foreign.jti, "grant_a"}
    desk.now_s += 3600
    assert device.contact(holding=(second.jti,)).revoked == (second.jti,)


def test_no_more_cards_than_wanted(desk: Desk) -> None:
    lab = desk.lab(wants=3)
    device = desk.device()
    granted = device.contact((0, 1, 2, 3, 4)).grants
    assert len(granted) == 3
    held = tuple(device.verified(offer.ticket, lab.name).jti for offer in granted)
    assert device.contact((3, 4), holding=held).grants == ()
    lab.demand(4)
    assert len(device.contact((3, 4), holding=held).grants) == 1


def test_a_card_that_is_given_back_counts_no_longer(desk: Desk) -> None:
    lab = desk.lab(wants=1)
    first, second = desk.device(), desk.device()
    grant = first.grant()
    assert second.contact((0,)).grants == ()
    first.contact(holding=(grant.jti,))
    assert second.contact((0,)).grants == ()
    first.contact()
    assert second.contact((0,)).grants[0].lab == lab.name


def test_a_device_that_vanished_counts_no_longer(desk: Desk) -> None:
    lab = desk.lab(wants=1)
    desk.device().contact((0,))
    second = desk.device()
    assert second.contact((0,)).grants == ()
    desk.now_s += 3 * 300 + 1
    lab.demand(1)
    assert len(second.contact((0,)).grants) == 1


def test_demand_grows_old(desk: Desk) -> None:
    desk.lab()
    device = desk.device()
    desk.now_s += 121
    assert device.contact((0,)).grants == ()


def test_cards_without_enough_memory_or_walls_get_nothing(desk: Desk) -> None:
    lab = desk.lab()
    lab.demand(10, 16 * GIB)
    device = desk.device()
    assert device.contact((0,), memory_bytes=16 * GIB - 1).grants == ()
    assert device.contact((0,), memory_bytes=16 * GIB, sandbox_level="none").grants == ()
    assert len(device.contact((0,), memory_bytes=16 * GIB, sandbox_level="reduced").grants) == 1


def test_the_operators_limit_of_a_lab(desk: Desk) -> None:
    desk.lab(wants=100, max_cards=2)
    assert len(desk.device().contact((0, 1, 2, 3)).grants) == 2


def test_wants_without_a_card_and_twice(desk: Desk) -> None:
    desk.lab()
    device = desk.device()
    reply = device.contact((0, 0, 7), cards=(card(0), card(1)))
    assert [offer.card for offer in reply.grants] == [0]


def test_cards_per_device_are_limited() -> None:
    with memory() as tx:
        desk = Desk(tx, max_cards_per_device=2)
        desk.lab()
        assert len(desk.device().contact(tuple(range(5))).grants) == 2


def test_a_device_that_drops_every_grant_gets_no_endless_supply(desk: Desk) -> None:
    labs = [desk.lab(f"lab-{letter}", wants=0) for letter in "ab"]
    device = desk.device()
    got = 0
    for turn in range(60):
        for number, lab in enumerate(labs):
            lab.demand(5 if turn % 2 == number else 0)
        got += len(device.contact((0,), engine_build=f"engine-{turn}").grants)
        desk.now_s += 1
    assert got == contact.MAX_LIVE_PER_CARD


def shares(desk: Desk, labs: list[Lab], contacts: int) -> dict[str, int]:
    """How many cards each lab gets when one device after the other comes with one card."""
    counts = {lab.name: 0 for lab in labs}
    for number in range(contacts):
        device = desk.device(f"owner-{number}")
        counts[device.contact((0,)).grants[0].lab] += 1
    return counts


def test_labs_share_by_weight(desk: Desk) -> None:
    labs = [desk.lab("lab-a", weight=1.0), desk.lab("lab-b", weight=3.0)]
    counts = shares(desk, labs, 40)
    assert counts == {labs[0].name: 10, labs[1].name: 30}


def test_a_new_lab_gets_its_share_and_not_everything(desk: Desk) -> None:
    first = desk.lab("lab-a")
    shares(desk, [first], 20)
    second = desk.lab("lab-b")
    counts = shares(desk, [first, second], 0)
    for number in range(10):
        counts[desk.device(f"late-{number}").contact((0,)).grants[0].lab] += 1
    assert counts == {first.name: 5, second.name: 5}


def test_next_contact(desk: Desk) -> None:
    device = desk.device()
    assert device.contact().next_contact_s == 300
    assert device.contact((0,)).next_contact_s == 60, "a card waits"
    desk.lab()
    assert device.contact((0,)).next_contact_s == 300


def test_contacts_are_spread_and_come_before_a_grant_ends() -> None:
    with memory() as tx:
        desk = Desk(tx, contact_jitter=0.2)
        device = desk.device()
        times = [device.contact().next_contact_s for _ in range(200)]
        assert 240 <= min(times) < 255
        assert 345 < max(times) <= 360
    with memory() as tx:
        desk = Desk(tx, grant_s=30)
        assert desk.device().contact().next_contact_s == 10


def test_contacts_that_come_together_are_answered_as_one_after_the_other(desk: Desk) -> None:
    desk.lab(wants=3)
    devices = [desk.device(f"owner-{number}") for number in range(4)]
    stranger = Ed25519PrivateKey.generate()
    asked = [
        contact.Asked(Caller(public_key_bytes(key), bytes([number]), 2e9, "192.0.2.1"), message)
        for number, (key, message) in enumerate([
            *((device.key, Contact(cards=(card(0),), wants=(0,))) for device in devices),
            (stranger, Contact(cards=())),
            (devices[0].key, Contact(cards=(card(0),), wants=(0,))),
        ])
    ]  # fmt: skip
    asked.append(asked[0])
    answers = contact.signed_contacts(desk.house, desk.tx, desk.now_s, desk.rng, asked)
    offered = [len(one.grants) if isinstance(one, ContactReply) else one.code for one in answers]
    # The lab wants three cards; a device that comes twice is offered its grant again.
    assert offered == [1, 1, 1, 0, "device_unknown", 1, "signature_replayed"]
    assert answers[5].grants == answers[0].grants  # type: ignore[union-attr] - said above
    again = contact.signed_contacts(desk.house, desk.tx, desk.now_s, desk.rng, asked[4:5])
    assert [getattr(one, "code", "") for one in again] == ["signature_replayed"], (
        "a refusal as well"
    )
