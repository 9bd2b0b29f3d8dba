"""Look-ups that several handlers need. Owns no rule of its own beyond nonces being used once."""

from __future__ import annotations

from typing import Final

from gpugoblin.errors import CoordinatorError, WireError
from server_stub.coordinator.house import Caller
from server_stub.coordinator.store import Transaction, Value

__all__ = ["account_id", "lab_of", "number", "use_nonce"]

_SWEEP: Final = 64
"""Old nonces that each request sweeps away: more than it adds, so the table stays small."""


def number(tx: Transaction, sql: str, *values: Value) -> int:
    """The one whole number that a query gives."""
    row = tx.row(sql, *values)
    return int(row[0]) if row is not None else 0


def use_nonce(tx: Transaction, now_s: float, caller: Caller) -> None:
    """Uses up the nonce of a request.

    Raises:
        WireError: `signature_replayed`.
    """
    tx.execute(
        "DELETE FROM nonce WHERE (public_key, nonce) IN"
        " (SELECT public_key, nonce FROM nonce WHERE until_s < ? LIMIT ?)",
        now_s, _SWEEP,
    )  # fmt: skip
    new = tx.execute(
        "INSERT INTO nonce (public_key, nonce, until_s) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        caller.public_key, caller.nonce, caller.until_s,
    )  # fmt: skip
    if new == 0:
        raise WireError("signature_replayed")


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
