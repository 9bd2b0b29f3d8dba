"""Enrolment of a device by code: start, poll, approve, deny (RFC 8628 in shape).

Owns: the life of an enrolment. A device proves its key by signing; a person approves the code that
the device shows. Codes end, may be polled only so often, and cannot be guessed by trying.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import DeviceId, EnrolmentId
from gpugoblin.wire.messages.enrol import EnrolPoll, EnrolPollReply, EnrolStart, EnrolStartReply
from gpugoblin.wire.signing import fingerprint
from server_stub.coordinator import audit
from server_stub.coordinator.buckets import Rate, take_stored
from server_stub.coordinator.handlers.common import account_id, number
from server_stub.coordinator.house import Caller, House, draw_code, draw_id
from server_stub.coordinator.pseudonyms import network_bucket
from server_stub.coordinator.store import Transaction

__all__ = ["Decision", "approve", "deny", "poll", "start", "take_in"]

SLOW_DOWN_S: Final = 5.0
"""What a poll that comes too early adds to the interval (RFC 8628, section 3.5)."""

_EARLY: Final = 0.8
"""A poll after this share of the interval is not early: networks are not that punctual."""

_KEEP_S: Final = 3600.0
"""Ended enrolments are kept this long, so that a device can be told what became of its code."""

# The points of small order on Ed25519's curve, in every encoding that decodes to one: with such a
# public key, signatures can be made without a private key (RFC 8032, section 8.9 and Chalkias,
# Garillot, Nikolaenko, "Taming the many EdDSAs", 2020, table 1).
_WEAK_KEYS: Final = frozenset(
    bytes.fromhex(digits[:62]) + bytes([int(digits[62:], 16) ^ sign])
    for digits in (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
    for sign in (0x00, 0x80)
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a code that the operator named, or why nothing did."""

    device: DeviceId | None = None
    fingerprint: str = ""
    error: CoordinatorError | None = None


def start(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: EnrolStart,
) -> EnrolStartReply:
    """A code for a new device; the same one while it waits; an approved one for a known device.

    Raises:
        CoordinatorError: `device_key_mismatch`, `device_key_weak`, `device_revoked`,
            `enrolment_crowded`.
    """
    if message.public_key != caller.public_key:
        raise CoordinatorError("device_key_mismatch")
    if message.public_key in _WEAK_KEYS:
        raise CoordinatorError("device_key_weak")
    known = tx.row("SELECT device, revoked_s FROM device WHERE public_key = ?", message.public_key)
    if known is not None and known[1] is not None:
        raise CoordinatorError("device_revoked")
    tx.execute("DELETE FROM enrolment WHERE expires_s < ?", now_s - _KEEP_S)
    device = known[0] if known is not None else None
    state = "pending" if device is None else "approved"
    same = tx.row(
        "SELECT enrolment, user_code, interval_s, expires_s FROM enrolment"
        " WHERE public_key = ? AND state = ? AND expires_s > ? ORDER BY expires_s DESC",
        message.public_key, state, now_s,
    )  # fmt: skip
    if same is None:
        same = _insert(house, tx, now_s, rng, caller, state, device)
    enrolment, code, interval_s, expires_s = same
    return EnrolStartReply(
        enrolment=EnrolmentId(enrolment),
        user_code=code,
        fingerprint=fingerprint(message.public_key),
        interval_s=interval_s,
        expires_s=expires_s - now_s,
    )


def poll(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: EnrolPoll,
) -> EnrolPollReply:
    """Whether the code was approved. Only the key that started the enrolment may ask.

    Raises:
        CoordinatorError: `enrolment_unknown`: also for another key's enrolment.
    """
    row = tx.row(
        "SELECT state, device, expires_s, polled_s, interval_s FROM enrolment"
        " WHERE enrolment = ? AND public_key = ?",
        message.enrolment, caller.public_key,
    )  # fmt: skip
    if row is None:
        raise CoordinatorError("enrolment_unknown")
    state, device, expires_s, polled_s, interval_s = row
    if state == "approved":
        return EnrolPollReply(state="approved", device=DeviceId(device))
    if state == "denied":
        return EnrolPollReply(state="denied")
    if now_s >= expires_s:
        return EnrolPollReply(state="expired")
    early = polled_s is not None and now_s - polled_s < _EARLY * interval_s
    tx.execute(
        "UPDATE enrolment SET polled_s = ?, interval_s = ? WHERE enrolment = ?",
        now_s, interval_s + SLOW_DOWN_S if early else interval_s, message.enrolment,
    )  # fmt: skip
    return EnrolPollReply(state="slow_down" if early else "pending")


def approve(
    house: House, tx: Transaction, now_s: float, rng: random.Random, account: str, code: str,
    expected: str = "",
) -> Decision:  # fmt: skip
    """Gives the device that shows `code` to the account named `account`.

    A wrong code costs the account a try, so the result is returned and not raised: a raised error
    would undo that.

    Args:
        expected: the fingerprint that the device shows, however it was typed; the device is
            refused when its key has another one. "": the operator compares by eye.
    """
    return _decide(house, tx, now_s, rng, account, code, "approved", expected)


def deny(
    house: House, tx: Transaction, now_s: float, rng: random.Random, account: str, code: str
) -> Decision:
    """Refuses the device that shows `code`. Otherwise as `approve`."""
    return _decide(house, tx, now_s, rng, account, code, "denied")


def _decide(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    account_name: str,
    code: str,
    state: Literal["approved", "denied"],
    expected: str = "",
) -> Decision:
    account = account_id(tx, account_name)
    settings = house.settings
    rate = Rate(1.0 / max(settings.code_try_s, 1e-3), float(settings.code_tries))
    refused_s = take_stored(tx, now_s, "code", account, rate, 0.0)
    if refused_s:
        return Decision(
            error=CoordinatorError("code_tries_exhausted", account=account_name, wait_s=refused_s)
        )
    spelled = _spelled(code)
    row = tx.row(
        "SELECT enrolment, public_key FROM enrolment"
        " WHERE user_code = ? AND state = 'pending' AND expires_s > ?",
        spelled, now_s,
    )  # fmt: skip
    if row is None:
        take_stored(tx, now_s, "code", account, rate, 1.0)
        return Decision(error=CoordinatorError("code_unknown", user_code=spelled[:20]))
    enrolment, public_key = row
    found = fingerprint(public_key)
    if expected and _digits(expected) != _digits(found):
        differs = CoordinatorError("fingerprint_differs", given=expected[:40], found=found)
        return Decision(error=differs)
    device: DeviceId | None = None
    if state == "approved":
        device = take_in(tx, now_s, rng, account, enrolment, public_key)
    else:
        tx.execute("UPDATE enrolment SET state = 'denied' WHERE enrolment = ?", enrolment)
        audit.record(tx, now_s, account, "deny", enrolment)
    return Decision(device=device, fingerprint=found)


def take_in(
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    account: str,
    enrolment: str,
    public_key: bytes,
) -> DeviceId:
    """Makes the device of a waiting enrolment one of the account's."""
    device = DeviceId(draw_id("device", rng))
    tx.execute(
        "INSERT INTO device (device, account, public_key, created_s) VALUES (?, ?, ?, ?)",
        device, account, public_key, now_s,
    )  # fmt: skip
    tx.execute(
        "UPDATE enrolment SET state = 'approved', device = ? WHERE enrolment = ?",
        device, enrolment,
    )  # fmt: skip
    audit.record(tx, now_s, account, "approve", device)
    return device


def _insert(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    state: str,
    device: str | None,
) -> tuple[str, str, float, float]:
    settings = house.settings
    bucket = network_bucket(house.pseudonym_key, caller.address, None)
    waiting = number(
        tx, "SELECT COUNT(*) FROM enrolment WHERE state = 'pending' AND expires_s > ?", now_s
    )
    near = number(
        tx,
        "SELECT COUNT(*) FROM enrolment WHERE state = 'pending' AND expires_s > ?"
        " AND network_bucket = ?",
        now_s, bucket,
    )  # fmt: skip
    if waiting >= settings.max_pending or near >= settings.max_pending_per_network:
        raise CoordinatorError("enrolment_crowded")
    enrolment = draw_id("enrol", rng)
    code = draw_code(rng)
    while tx.row("SELECT 1 FROM enrolment WHERE user_code = ?", code) is not None:
        code = draw_code(rng)
    expires_s = now_s + settings.enrol_expires_s
    tx.execute(
        "INSERT INTO enrolment (enrolment, user_code, public_key, network_bucket, state, device,"
        " expires_s, interval_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        enrolment, code, caller.public_key, bucket, state, device, expires_s,
        settings.enrol_interval_s,
    )  # fmt: skip
    return enrolment, code, settings.enrol_interval_s, expires_s


def _spelled(code: str) -> str:
    """`wdjb mjht` as `WDJB-MJHT`: people type codes as they like."""
    letters = "".join(letter for letter in code.upper() if letter.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def _digits(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
