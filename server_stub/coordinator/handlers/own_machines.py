"""What a device is told of the other machines of its account.

Owns: that one answer. Must not: say who the owner is, or what for which lab they compute: whoever
has the disk of one machine learns of the others no more than that they are there.
"""

from __future__ import annotations

import random
from typing import Final

from gpugoblin.errors import CoordinatorError
from gpugoblin.wire.messages.account import AccountMachine, Machines, MachinesReply
from server_stub.coordinator.handlers import people
from server_stub.coordinator.house import Caller, House
from server_stub.coordinator.store import Transaction

__all__ = ["machines"]

MOST: Final = 200


def machines(
    house: House,
    tx: Transaction,
    now_s: float,
    rng: random.Random,
    caller: Caller,
    message: Machines,
) -> MachinesReply:
    """The machines of the account that the caller belongs to.

    Raises:
        CoordinatorError: `device_unknown`, `device_revoked`.
    """
    row = tx.row("SELECT account, revoked_s FROM device WHERE public_key = ?", caller.public_key)
    if row is None:
        raise CoordinatorError("device_unknown")
    account, revoked_s = row
    if revoked_s is not None:
        raise CoordinatorError("device_revoked")
    return MachinesReply(
        tuple(
            AccountMachine(
                one.fingerprint, one.created_s, one.seen_s, one.revoked_s is not None,
                min(one.cards, 1024), max(0.0, one.units),
            )
            for one in people.machines(tx, now_s, account)[:MOST]
        )
    )  # fmt: skip
