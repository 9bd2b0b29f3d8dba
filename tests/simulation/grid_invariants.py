"""What must hold at the coordinator after every event, read from the database alone."""

from __future__ import annotations

from server_stub.coordinator.audit import verify_chain
from server_stub.coordinator.handlers.contact import live_s
from server_stub.coordinator.ledger import audit_ledger
from server_stub.coordinator.store import SqliteTransaction
from tests.simulation.grid import Grid

__all__ = ["check", "everything_is_booked"]

WHOLE_EVERY = 50
"""Looks after which the whole ledger is read again."""


def check(grid: Grid) -> None:
    """Raises AssertionError naming the invariant that broke."""
    _nonces(grid)
    _credits(grid)
    _grants(grid)
    _counts(grid)


def _all(grid: Grid, statement: str, *values: object) -> list[tuple[object, ...]]:
    return grid.connection.execute(statement, values).fetchall()


def _nonces(grid: Grid) -> None:
    assert grid.accepted.total() == len(grid.accepted), "a request counts twice"


def _credits(grid: Grid) -> None:
    """Reads what is new: the four tables only grow (triggers, see `schema`). The sums are compared
    each time, and everything is read again now and then, and at the end (`_whole_ledger`)."""
    book = grid.book
    book.looks += 1
    if book.looks % WHOLE_EVERY == 0:
        _whole_ledger(grid)
    new = _all(
        grid,
        "SELECT receipt.rowid, receipt, account.name, entry.lab, day, holder, micro_units,"
        " account.account FROM receipt LEFT JOIN entry USING (receipt)"
        " LEFT JOIN posting USING (entry)"
        " LEFT JOIN account ON account.account = entry.account WHERE receipt.rowid > ?"
        " ORDER BY receipt.rowid, micro_units",
        book.row,
    )
    assert len(new) % 2 == 0, "a receipt is not one entry with two postings"
    for taken, given in zip(new[::2], new[1::2], strict=True):
        row, receipt, owner, lab, day, holder, micro, account = given
        assert taken[1] == receipt, "a receipt is not one entry with two postings"
        assert (taken[5], holder) == (f"lab:{lab}", f"account:{account}"), "a posting is another's"
        assert taken[6] == -int(str(micro)), "an entry does not sum to zero"
        assert grid.verified[str(receipt)] == (owner, lab, micro), (
            "a credit is not what was verified"
        )
        book.row = int(str(row))
        for name, change in ((str(taken[5]), taken[6]), (str(holder), micro)):
            book.balances[name] += int(str(change))
        book.days[str(lab), int(str(day))] += int(str(micro))
    balances = {str(holder): micro for holder, micro in _all(grid, "SELECT * FROM balance")}
    assert balances == book.balances, "a balance is not the sum of its postings"
    days = {
        (str(lab), int(str(day))): micro
        for lab, day, micro in _all(grid, "SELECT lab, day, micro_units FROM lab_day")
    }
    assert days == book.days, "a lab's day is not the sum of its receipts"


def _whole_ledger(grid: Grid) -> None:
    assert audit_ledger(SqliteTransaction(grid.connection)) == [], "the ledger does not sum to zero"
    broken = _all(
        grid,
        "SELECT receipt FROM receipt LEFT JOIN entry USING (receipt)"
        " LEFT JOIN posting USING (entry)"
        " GROUP BY receipt HAVING COUNT(posting.holder) <> 2",
    )
    assert not broken, "a receipt is not one entry with two postings"
    for receipt, owner, lab, micro in _all(
        grid,
        "SELECT receipt, account.name, lab, micro_units FROM entry JOIN posting USING (entry)"
        " JOIN account ON account.account = entry.account WHERE micro_units > 0",
    ):
        assert grid.verified[str(receipt)] == (owner, lab, micro), (
            "a credit is not what was verified"
        )
    wrong = _all(
        grid,
        "SELECT lab, day FROM lab_day WHERE micro_units <> (SELECT SUM(micro_units) FROM entry"
        " JOIN posting USING (entry) WHERE micro_units > 0 AND entry.lab = lab_day.lab"
        " AND entry.day = lab_day.day)",
    )
    assert not wrong, "a lab's day is not the sum of its receipts"


def _grants(grid: Grid) -> None:
    revoked = _all(
        grid,
        "SELECT card_grant FROM card_grant JOIN device USING (device)"
        " WHERE device.revoked_s IS NOT NULL AND card_grant.revoked_s IS NULL"
        " AND card_grant.expires_s > ?",
        grid.now_s,
    )
    assert not revoked, "a revoked machine has a valid grant"
    ((counted,),) = _all(grid, "SELECT COUNT(*) FROM card_grant WHERE revoked_s IS NOT NULL")
    ((said,),) = _all(grid, "SELECT value FROM counter WHERE name = 'revocation'")
    assert counted == said, "the number of revocations is wrong"


def _cards_of_those_who_came_back(grid: Grid) -> int:
    """A machine that was silent for too long counts no longer, so its cards' places are given to
    others; when it comes back with grants that are still valid, they count again."""
    live, grant_s = live_s(grid.house.settings), grid.house.settings.grant_s
    for device, seen_s in _all(grid, "SELECT device, seen_s FROM device WHERE seen_s IS NOT NULL"):
        name, now_s = str(device), float(str(seen_s))
        if now_s - grid.seen.get(name, now_s) >= live:
            grid.returned[name] = now_s
        grid.seen[name] = now_s
    return 2 * sum(at_s + grant_s > grid.now_s for at_s in grid.returned.values())


def _counts(grid: Grid) -> None:
    back = _cards_of_those_who_came_back(grid)
    for lab, held, most, counted, pairs in _all(
        grid,
        "SELECT lab, cards_held, max_cards, COUNT(card_grant), COUNT(DISTINCT device || card)"
        " FROM lab LEFT JOIN (SELECT lab, card_grant, device, card FROM card_grant"
        "  WHERE counted_until_s IS NOT NULL) USING (lab) GROUP BY lab",
    ):
        assert held == counted == pairs, "a lab's count is not that of its cards"
        assert int(str(held)) <= int(str(most)) + back, f"{lab} has more cards than it may"
    dead = _all(
        grid,
        "SELECT card_grant FROM card_grant WHERE counted_until_s IS NOT NULL AND"
        " (revoked_s IS NOT NULL OR released_s IS NOT NULL OR counted_until_s > expires_s"
        " OR counted_until_s > seen_s + ?)",
        live_s(grid.house.settings),
    )
    assert not dead, "a grant counts that is over"


def everything_is_booked(grid: Grid) -> None:
    """After the world has healed: each receipt that any lab made is booked, to the unit."""
    assert not any(office.outbox for office in grid.offices), "a lab still has receipts"
    _whole_ledger(grid)
    booked = {
        str(receipt): (owner, lab, micro)
        for receipt, owner, lab, micro in _all(
            grid,
            "SELECT receipt, account.name, lab, micro_units FROM entry JOIN posting USING (entry)"
            " JOIN account ON account.account = entry.account WHERE micro_units > 0",
        )
    }
    assert booked == grid.verified, "verified work is not credited to the unit"
    assert verify_chain(SqliteTransaction(grid.connection)) is None, "the record is broken"
