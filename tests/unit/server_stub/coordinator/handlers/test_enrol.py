"""Enrolment by code."""

from __future__ import annotations

import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolStart, EnrolStartReply
from gpugoblin.wire.signing import fingerprint, public_key_bytes
from server_stub.coordinator.handlers import enrol
from server_stub.coordinator.handlers.operator import revoke_device
from tests.helpers.coordinator import Desk, memory

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
HERE = "192.0.2.1"


def start(desk: Desk, key: Ed25519PrivateKey = KEY, address: str = HERE) -> EnrolStartReply:
    return desk.ask(enrol.start, key, EnrolStart(public_key_bytes(key)), address)


def poll(
    desk: Desk, reply: EnrolStartReply, key: Ed25519PrivateKey = KEY
) -> tuple[str, str | None]:
    answer = desk.ask(enrol.poll, key, EnrolPoll(reply.enrolment), HERE)
    return answer.state, answer.device


def approve(desk: Desk, code: str, account: str = "ann") -> str | None:
    decided = enrol.approve(desk.house, desk.tx, desk.now_s, desk.rng, account, code)
    if decided.error is not None:
        raise decided.error
    return decided.device


def test_a_device_is_enrolled(desk: Desk) -> None:
    desk.account("ann")
    reply = start(desk)
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", reply.user_code)
    assert reply.fingerprint == fingerprint(public_key_bytes(KEY))
    assert (reply.interval_s, reply.expires_s) == (5.0, 600.0)
    assert poll(desk, reply) == ("pending", None)
    decided = enrol.approve(desk.house, desk.tx, desk.now_s, desk.rng, "ann", reply.user_code)
    device = decided.device
    assert device is not None
    assert decided.fingerprint == reply.fingerprint  # what the operator compares
    assert poll(desk, reply) == ("approved", device)
    assert poll(desk, reply) == ("approved", device)


@pytest.mark.parametrize(
    "spell", [str.lower, lambda c: c.replace("-", ""), lambda c: f" {c[:2]} {c[2:]} "]
)
def test_codes_may_be_typed_in_any_way(desk: Desk, spell: object) -> None:
    desk.account("ann")
    assert approve(desk, spell(start(desk).user_code)) is not None  # type: ignore[operator]


def test_starting_again_gives_the_same_code_while_it_waits(desk: Desk) -> None:
    first = start(desk)
    desk.now_s += 100
    second = start(desk)
    assert second.user_code == first.user_code
    assert second.expires_s == first.expires_s - 100
    desk.now_s += 500
    assert start(desk).user_code != first.user_code


def test_a_known_device_is_approved_at_once(desk: Desk) -> None:
    device = desk.device()
    again = start(desk, device.key)
    assert poll(desk, again, device.key) == ("approved", device.name)


def test_polling_too_often_slows_down(desk: Desk) -> None:
    reply = start(desk)
    assert poll(desk, reply)[0] == "pending"
    desk.now_s += 1
    assert poll(desk, reply)[0] == "slow_down"
    desk.now_s += 5
    assert poll(desk, reply)[0] == "slow_down", "the interval is 10 s now"
    desk.now_s += 15
    assert poll(desk, reply)[0] == "pending"


def test_codes_end(desk: Desk) -> None:
    desk.account("ann")
    reply = start(desk)
    desk.now_s += 600
    assert poll(desk, reply)[0] == "expired"
    with pytest.raises(CoordinatorError) as caught:
        approve(desk, reply.user_code)
    assert caught.value.code == "code_unknown"


def test_a_code_is_approved_once(desk: Desk) -> None:
    desk.account("ann")
    reply = start(desk)
    approve(desk, reply.user_code)
    with pytest.raises(CoordinatorError) as caught:
        approve(desk, reply.user_code)
    assert caught.value.code == "code_unknown"


def test_denied(desk: Desk) -> None:
    desk.account("ann")
    reply = start(desk)
    decided = enrol.deny(desk.house, desk.tx, desk.now_s, desk.rng, "ann", reply.user_code)
    assert (decided.device, decided.error) == (None, None)
    assert decided.fingerprint == reply.fingerprint
    assert poll(desk, reply)[0] == "denied"
    assert desk.tx.rows("SELECT * FROM device") == []


def test_only_the_key_that_started_may_poll(desk: Desk) -> None:
    reply = start(desk)
    other = Ed25519PrivateKey.generate()
    assert desk.refused(enrol.poll, other, EnrolPoll(reply.enrolment)) == "enrolment_unknown"
    nobody = EnrolPoll("enrol_a")  # type: ignore[arg-type]
    assert desk.refused(enrol.poll, KEY, nobody) == "enrolment_unknown"


def test_a_device_signs_with_the_key_it_enrols(desk: Desk) -> None:
    other = EnrolStart(public_key_bytes(Ed25519PrivateKey.generate()))
    assert desk.refused(enrol.start, KEY, other) == "device_key_mismatch"


def test_wrong_codes_run_out_and_come_back(desk: Desk) -> None:
    desk.account("ann")
    desk.account("bob")
    reply = start(desk)
    for _ in range(5):
        with pytest.raises(CoordinatorError) as caught:
            approve(desk, "BBBB-BBBB")
        assert caught.value.code == "code_unknown"
    with pytest.raises(CoordinatorError) as caught:
        approve(desk, reply.user_code)
    assert caught.value.code == "code_tries_exhausted"
    assert caught.value.fields["wait_s"] == 600
    desk.now_s += 590
    with pytest.raises(CoordinatorError):
        approve(desk, reply.user_code)
    assert approve(desk, reply.user_code, "bob") is not None, "another account has its own tries"
    desk.now_s += 15
    assert approve(desk, start(desk, Ed25519PrivateKey.generate()).user_code) is not None


def test_unknown_account(desk: Desk) -> None:
    with pytest.raises(CoordinatorError) as caught:
        approve(desk, start(desk).user_code, "nobody")
    assert caught.value.code == "account_unknown"


def test_too_many_waiting_from_one_network_and_in_all() -> None:
    with memory() as tx:
        desk = Desk(tx, max_pending=5, max_pending_per_network=3)
        for number in range(3):
            start(desk, Ed25519PrivateKey.generate(), f"192.0.2.{number}")
        with pytest.raises(CoordinatorError) as caught:
            start(desk, Ed25519PrivateKey.generate(), "192.0.2.200")
        assert caught.value.code == "enrolment_crowded"
        for number in range(2):
            start(desk, Ed25519PrivateKey.generate(), f"198.51.{number}.1")
        with pytest.raises(CoordinatorError):
            start(desk, Ed25519PrivateKey.generate(), "203.0.113.1")
        desk.now_s += 601
        start(desk, Ed25519PrivateKey.generate(), "192.0.2.200")


def test_a_revoked_device_stays_out(desk: Desk) -> None:
    device = desk.device()
    revoke_device(desk.tx, desk.now_s, device.name)  # type: ignore[arg-type]
    refused = desk.refused(enrol.start, device.key, EnrolStart(public_key_bytes(device.key)))
    assert refused == "device_revoked"


def test_keys_for_which_anybody_can_sign_are_refused(desk: Desk) -> None:
    forged = 0
    for weak in sorted(enrol._WEAK_KEYS):
        assert len(weak) == 32
        caller = enrol.Caller(weak, b"", 0.0, HERE)
        with pytest.raises(CoordinatorError) as caught:
            enrol.start(desk.house, desk.tx, desk.now_s, desk.rng, caller, EnrolStart(weak))
        assert caught.value.code == "device_key_weak"
        # A signature of a neutral point and zero needs no private key.
        signature = (1).to_bytes(32, "little") + bytes(32)
        for number in range(8):
            try:
                Ed25519PublicKey.from_public_bytes(weak).verify(signature, bytes([number]))
            except Exception:  # noqa: S112 - some encodings are refused by the library
                continue
            forged += 1
    assert forged > 0, "the library would have accepted forged signatures under these keys"
