"""Enrolment at the device itself: its owner signs in with the code of a letter.

Owns: the two steps. A letter is asked for and its code redeemed as at the page Sign in, with the
same limits; whoever reads the mailbox owns the device whose key signed both requests. Must not:
make a session: the device gets no right of its owner's but that of being one of the machines.
"""

from __future__ import annotations

import random

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import AskId
from gpugoblin.wire.messages.enrol import EnrolCode, EnrolCodeReply, EnrolMail, EnrolMailReply
from server_stub.coordinator.handlers import signin
from server_stub.coordinator.handlers.enrol import take_in
from server_stub.coordinator.house import Caller, House
from server_stub.coordinator.store import Transaction
from server_stub.coordinator.web.languages import DEFAULT, LANGUAGES

__all__ = ["code", "mail"]


def mail(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: EnrolMail,
) -> EnrolMailReply:
    """Sends a letter with a code, for an enrolment of the caller that waits.

    Raises:
        CoordinatorError: `enrolment_unknown`; as `signin.ask_code`.
    """
    _need_waiting(tx, now_s, caller, message.enrolment)
    language = message.language if message.language in LANGUAGES else DEFAULT
    ask = signin.ask_code(house, tx, now_s, rng, message.mailbox, language, caller.address)
    return EnrolMailReply(ask=AskId(ask), expires_s=house.settings.login_s)


def code(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: EnrolCode,
) -> EnrolCodeReply | CoordinatorError:
    """Approves the enrolment for the account of whoever got the letter.

    A wrong code costs a try, so that refusal is returned and not raised: a raised error would undo
    it.

    Raises:
        CoordinatorError: `enrolment_unknown`.
    """
    _need_waiting(tx, now_s, caller, message.enrolment)
    account = signin.redeem_account(house, tx, now_s, rng, message.ask, message.code)
    if isinstance(account, CoordinatorError):
        return account
    device = take_in(tx, now_s, rng, account, message.enrolment, caller.public_key)
    return EnrolCodeReply(device=device)


def _need_waiting(tx: Transaction, now_s: float, caller: Caller, enrolment: str) -> None:
    row = tx.row(
        "SELECT 1 FROM enrolment WHERE enrolment = ? AND public_key = ? AND state = 'pending'"
        " AND expires_s > ?",
        enrolment, caller.public_key, now_s,
    )  # fmt: skip
    if row is None:
        raise CoordinatorError("enrolment_unknown")
