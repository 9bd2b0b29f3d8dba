"""Look-ups that several handlers need. Owns no rule of its own beyond nonces being used once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.errors import CoordinatorError, WireError
from server_stub.coordinator.house import Caller
from server_stub.coordinator.store import Transaction, Value

__all__ = ["account_id", "lab_of", "number", "use_nonce", "use_nonces"]

_SWEEP: Final = 64
"""Old nonces that each request sweeps away: more than it adds, so the table stays small. A batch of
requests sweeps twice as many as it may add at most."""


def number(tx: Transaction, sql: str, *values: Value) -> int:
    """The one whole number that a query gives."""
    row = tx.row(sql, *values)
    return int(row[0]) if row is not None else 0


def use_nonce(tx: Transaction, now_s: float, caller: Caller) -> None:
    """Uses up the nonce of a request.

    Raises:
        WireError: `signature_replayed`.
    """
    if not use_nonces(tx, now_s, [caller])[0]:
        raise WireError("signature_replayed")


def use_nonces(tx: Transaction, now_s: float, callers: Sequence[Caller]) -> list[bool]:
    """Uses up the nonces of requests; for each whether it was new."""
    tx.execute(
        "DELETE FROM nonce WHERE (public_key, nonce) IN"
        " (SELECT public_key, nonce FROM nonce WHERE until_s < ? LIMIT ?)",
        now_s, _SWEEP if len(callers) == 1 else 2 * _SWEEP,
    )  # fmt: skip
    size = 1 << (len(callers) - 1).bit_length()  # few different statements: repeats do nothing
    padded = [*callers, *[callers[-1]] * (size - len(callers))]
    rows = ", ".join(size * ["(?, ?, ?)"])
    new = {
        (bytes(key), bytes(nonce))
        for key, nonce in tx.rows(
            f"INSERT INTO nonce (public_key, nonce, until_s) VALUES {rows}"  # noqa: S608 - marks
            " ON CONFLICT DO NOTHING RETURNING public_key, nonce",
            *(value for one in padded for value in (one.public_key, one.nonce, one.until_s)),
        )
    }
    found = []
    for one in callers:
        pair = (one.public_key, one.nonce)
        found.append(pair in new)
        new.discard(pair)  # a second request with it in the same batch is a repeat
    return found


def account_id(tx: Transaction, name: str) -> str:
    """The account of that name. Raises CoordinatorError `account_unknown`."""
    row = tx.row("SELECT account FROM account WHERE name = ?", name)
    if row is None:
        raise CoordinatorError("account_unknown", name=name[:64])
    return str(row[0])


def lab_of(tx: Transaction, caller: Caller, lab: str) -> str:
    """The lab that a request names, if its node's key signed the request.

    Raises:
        CoordinatorError: `coordinator_lab_unknown`, whichever of the two is wrong.
    """
    row = tx.row("SELECT lab FROM lab WHERE lab = ? AND public_key = ?", lab, caller.public_key)
    if row is None:
        raise CoordinatorError("coordinator_lab_unknown")
    return str(row[0])
