"""An audit of a lab node's database, in its own words and not in the product's.

Owns: what must be true of every task, result and receipt after any number of kills, read with
plain SQL from the node's and the coordinator's files. Must not: call the code that it audits.
"""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Fault",
    "Verified",
    "audit_credits",
    "audit_tasks",
    "counts",
    "diary",
    "lost",
    "read_only",
    "verified_so_far",
]

Row = tuple[Any, ...]
MICRO_UNITS = 1_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as it must be. `kind` is the rule that it breaks."""

    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """A task that was verified at some moment: who won, how, and what was put in place."""

    job: str
    number: int
    winner: str
    by: str
    folded: tuple[str, ...]


def counts(faults: list[Fault]) -> dict[str, int]:
    """How many faults of each kind."""
    return dict(Counter(fault.kind for fault in faults))


def read_only(path: Path) -> sqlite3.Connection:
    """A reader beside the process that owns the file."""
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)


def _rows(database: sqlite3.Connection, statement: str) -> list[Row]:
    return database.execute(statement).fetchall()


# -- what was verified once stays verified -------------------------------------------------------


def verified_so_far(node: Path) -> frozenset[Verified]:
    """Every task that is verified or used now. Empty while the node has no database yet."""
    with closing(read_only(node)) as database:
        try:
            folds: dict[int, list[str]] = defaultdict(list)
            for task, blob in _rows(database, "select task, blob from fold order by task, slot"):
                folds[task].append(blob)
            return frozenset(
                Verified(job, number, winner or "", by or "", tuple(folds[task]))
                for task, job, number, winner, by in _rows(
                    database,
                    "select id, job, number, winner, verified_by from task"
                    " where state in ('verified', 'used')",
                )
            )
        except sqlite3.OperationalError:
            return frozenset()


def lost(before: frozenset[Verified], node: Path) -> Iterator[Fault]:
    """Tasks that were verified before and are not now, or are by another result."""
    now = {(each.job, each.number): each for each in verified_so_far(node)}
    for old in sorted(before, key=lambda each: (each.job, each.number)):
        new = now.get((old.job, old.number))
        same = new is not None and (new.winner, new.by) == (old.winner, old.by)
        if not same or (old.folded and new is not None and new.folded != old.folded):
            yield Fault("lost", f"task {old.number} of {old.job} was {old}, is {new}")


def diary(node: Path) -> list[Row]:
    """How every job stands, and how many events tell of it."""
    with closing(read_only(node)) as database:
        return _rows(
            database, "select id, state, verified, used, credits, events from job order by id"
        )


# -- tasks ---------------------------------------------------------------------------------------


def audit_tasks(node: Path) -> list[Fault]:
    """Everything that is wrong with the jobs of a node that has come to rest."""
    with closing(read_only(node)) as database:
        return [
            *_unfinished(database),
            *_diary(database),
            *_verdicts(database),
            *_places(database),
            *_references(database),
        ]


def _unfinished(database: sqlite3.Connection) -> Iterator[Fault]:
    for job, name, state, tasks, verified, used, why in _rows(
        database, "select id, name, state, tasks, verified, used, error_text from job"
    ):
        if state != "done" or not tasks == verified == used:
            yield Fault(
                "unfinished", f"{name}: {state}, {verified} verified, {used} used of {tasks} {why}"
            )
        in_state = Counter(
            row[0] for row in database.execute("select state from task where job = ?", (job,))
        )
        if in_state != Counter({"used": tasks} if tasks else {}):
            yield Fault("unfinished", f"{name}: its tasks are {dict(in_state)}")


def _diary(database: sqlite3.Connection) -> Iterator[Fault]:
    """The event history alone: each task verified once, used once, in this order, then left."""
    history: dict[tuple[str, int], list[str]] = defaultdict(list)
    numbers: dict[str, list[int]] = defaultdict(list)
    for job, number, kind, task in _rows(
        database, "select job, number, kind, task_index from event order by job, number"
    ):
        numbers[job].append(number)
        if task is not None:
            history[job, task].append(kind)
    for job, found in numbers.items():
        if found != list(range(1, len(found) + 1)):
            yield Fault("diary", f"the events of {job} have gaps")
    for (job, task), kinds in history.items():
        yield from _one_history(f"task {task} of {job}", kinds)
    for job, count in _rows(database, "select id, tasks from job where state = 'done'"):
        for task in range(count):
            if (job, task) not in history:
                yield Fault("used_unverified", f"task {task} of {job} has no history")


def _one_history(name: str, kinds: list[str]) -> Iterator[Fault]:
    used = [at for at, kind in enumerate(kinds) if kind == "used"]
    verified = [at for at, kind in enumerate(kinds) if kind == "verified"]
    if len(used) > 1:
        yield Fault("used_twice", f"{name} was used {len(used)} times: {kinds}")
    if used and (not verified or verified[0] > used[0]):
        yield Fault("used_unverified", f"{name} was used before it was verified: {kinds}")
    if len(verified) > 1:
        yield Fault("lost", f"{name} was verified {len(verified)} times: {kinds}")
    if verified and not used:
        yield Fault("unfinished", f"{name} was verified and never used: {kinds}")
    if used and any(kind in ("leased", "committed") for kind in kinds[used[0] :]):
        yield Fault("computed_again", f"{name} was computed after it was used: {kinds}")


def _verdicts(database: sqlite3.Connection) -> Iterator[Fault]:
    """What was used is exactly what an accepted verdict was about."""
    leases = {
        row[0]: row[1:]
        for row in _rows(database, "select id, task, state, owner, device from lease")
    }
    votes: dict[str, list[str]] = defaultdict(list)
    for lease, blob in _rows(database, "select lease, blob from vote order by lease, slot"):
        votes[lease].append(blob)
    folds: dict[int, list[str]] = defaultdict(list)
    for task, blob in _rows(database, "select task, blob from fold order by task, slot"):
        folds[task].append(blob)
    for task, job, number, winner, by, verify in _rows(
        database, "select id, job, number, winner, verified_by, verify from task"
        " where state = 'used'",
    ):  # fmt: skip
        name = f"task {number} of {job}"
        if not winner or not by:
            yield Fault("used_unverified", f"{name} is used without a verdict")
            continue
        if by == "product" and verify != "product":
            yield Fault("used_unverified", f"{name} is no product but was checked as one")
        if winner == "validator":
            if by != "recompute":
                yield Fault("used_unverified", f"{name}: the validator's own, verified by {by}")
            continue
        yield from _one_winner(name, task, by, winner, leases, votes[winner], folds[task])


def _one_winner(
    name: str,
    task: int,
    by: str,
    winner: str,
    leases: dict[str, Row],
    named: list[str],
    folded: list[str],
) -> Iterator[Fault]:
    lease = leases.get(winner)
    if lease is None or lease[0] != task or lease[1] != "accepted":
        yield Fault("used_unverified", f"{name}: its winner {winner} is {lease}")
        return
    if folded != named:
        yield Fault("used_unverified", f"{name}: {folded} is used, {named} was committed")
    if by in ("equality", "agreement"):
        owners = {row[2] for row in leases.values() if row[0] == task and row[1] == "accepted"}
        if len(owners) < 2:
            yield Fault("used_unverified", f"{name}: {by} of {len(owners)} owner")


def _places(database: sqlite3.Connection) -> Iterator[Fault]:
    """Folds cover every element of every result exactly once."""
    boxes: dict[tuple[str, int], list[tuple[list[int], list[int]]]] = defaultdict(list)
    for job, array, box in _rows(
        database, "select job, array, box from fold where array is not null"
    ):
        start, stop = json.loads(box)
        boxes[job, array].append((start, stop))
    for job, array, shape_text in _rows(
        database, "select job, number, shape from array where job is not null and complete = 1"
    ):
        found = boxes.pop((job, array), [])
        covered = sum(math.prod(b - a for a, b in zip(*box, strict=True)) for box in found)
        whole = math.prod(json.loads(shape_text))
        if covered != whole:
            kind = "used_twice" if covered > whole else "used_unverified"
            yield Fault(kind, f"{covered} elements of {whole} of output {array} of {job} are used")
        for one, other in itertools.combinations(sorted(found), 2):
            if all(
                max(a, c) < min(b, d)
                for a, b, c, d in zip(*one, *other, strict=True)
            ) and one[0]:  # fmt: skip
                yield Fault("used_twice", f"{one} and {other} of output {array} of {job} overlap")
    for job, array in boxes:
        yield Fault("unfinished", f"output {array} of {job} is not complete")


def _references(database: sqlite3.Connection) -> Iterator[Fault]:
    """A node without running jobs holds no blob and awaits nothing."""
    for blob, refs in _rows(database, "select hash, refs from blob where refs != 0"):
        yield Fault("leftover", f"blob {blob} is held {refs} times by nobody")
    for lease, state in _rows(
        database, "select id, state from lease where state in ('issued', 'committed', 'uploaded')"
    ):
        yield Fault("leftover", f"lease {lease} is still {state}")


# -- credits -------------------------------------------------------------------------------------


def audit_credits(node: Path, coordinator: Path) -> list[Fault]:
    """Every accepted lease of a device is booked once, and the ledger sums to zero."""
    with closing(read_only(node)) as ours, closing(read_only(coordinator)) as theirs:
        return [*_outbox(ours), *_booked(ours, theirs), *_ledger(theirs)]


def _outbox(node: sqlite3.Connection) -> Iterator[Fault]:
    for lease, sent_s, refused in _rows(node, "select lease, sent_s, refused from outbox"):
        if sent_s is None or refused:
            yield Fault("receipts", f"the receipt of {lease}: sent {sent_s}, refused {refused!r}")
    for lease, state, receipt in _rows(
        node,
        "select l.id, l.state, o.receipt from lease l left join outbox o on o.lease = l.id"
        " where l.claim is not null",
    ):
        if (state == "accepted") != (receipt is not None) and state != "late":
            yield Fault("receipts", f"lease {lease} is {state}, its receipt is {receipt}")
    for (lease,) in _rows(node, "select lease from outbox where lease not in"
                          " (select id from lease where claim is not null)"):  # fmt: skip
        yield Fault("receipts", f"{lease} has a receipt without a device's claim")


def _booked(node: sqlite3.Connection, coordinator: sqlite3.Connection) -> Iterator[Fault]:
    written = {
        receipt: (lease, max(1, round(units * MICRO_UNITS)))
        for receipt, lease, units in _rows(node, "select receipt, lease, units from outbox")
    }
    booked: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for receipt, lease, micro_units in _rows(
        coordinator,
        "select r.receipt, r.lease, p.micro_units from receipt r"
        " join entry e on e.receipt = r.receipt"
        " join posting p on p.entry = e.entry and p.holder like 'account:%'",
    ):
        booked[receipt].append((lease, micro_units))
    for receipt in sorted(written.keys() | booked.keys()):
        if booked.get(receipt, []) != [written.get(receipt)]:
            yield Fault(
                "receipts",
                f"{receipt}: written {written.get(receipt)}, booked {booked.get(receipt)}",
            )


def _ledger(coordinator: sqlite3.Connection) -> Iterator[Fault]:
    (total,) = _rows(coordinator, "select coalesce(sum(micro_units), 0) from posting")[0]
    (balance,) = _rows(coordinator, "select coalesce(sum(micro_units), 0) from balance")[0]
    if total or balance:
        yield Fault("ledger", f"postings sum to {total}, balances to {balance}")
    for holder, has, posted in _rows(
        coordinator,
        "select b.holder, b.micro_units, (select coalesce(sum(p.micro_units), 0) from posting p"
        " where p.holder = b.holder) from balance b",
    ):
        if has != posted:
            yield Fault("ledger", f"{holder} has {has}, its postings sum to {posted}")
    for entry, count in _rows(
        coordinator, "select entry, count(*) from posting group by entry having count(*) != 2"
    ):
        yield Fault("ledger", f"entry {entry} has {count} postings")
