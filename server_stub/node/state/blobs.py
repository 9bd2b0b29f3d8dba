"""References to blobs. A blob's file lives while a row here counts at least one reference.

Owns: table `blob`. A reference is taken in the transaction that first names the blob (a commit, a
prepared region, a kept output), so a blob that is on its way is never deleted. At zero the row
stays until its file is gone: a crash in between is finished by `forgotten` after the restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from server_stub.node.state import bulk
from server_stub.node.state.words import DropBlob, Step
from server_stub.node.store.protocol import Tx

__all__ = ["drop_unnamed", "forget", "forgotten", "hold", "hold_all", "known", "release"]


def hold(step: Step, blob: str, nbytes: int) -> None:
    """One more reference; a file that was to be deleted stays."""
    hold_all(step, ((blob, nbytes),))


def hold_all(step: Step, named: Iterable[tuple[str, int]]) -> None:
    """One more reference for each (blob, bytes); one that is named twice gets two."""
    counts: dict[tuple[str, int], int] = {}
    for each in named:
        counts[each] = counts.get(each, 0) + 1
    for blob, _ in counts:
        if blob in step.dropping:
            step.dropping.discard(blob)
            drop = DropBlob(blob)
            if drop in step.effects:
                step.effects.remove(drop)
    bulk.insert(
        step.tx, "insert into blob values", "(?, ?, ?)",
        [(blob, nbytes, count) for (blob, nbytes), count in counts.items()],
        " on conflict(hash) do update set refs = refs + excluded.refs",
    )  # fmt: skip


def release(step: Step, blob: str) -> None:
    """One reference less; the last one has the file deleted."""
    left = step.tx.one("update blob set refs = refs - 1 where hash = ? returning refs", (blob,))
    if left is not None and left[0] == 0:
        _drop(step, blob)


def _drop(step: Step, blob: str) -> None:
    step.dropping.add(blob)
    step.emit(DropBlob(blob))


def forgotten(step: Step) -> None:
    """Has every file deleted whose blob nobody references (after a restart)."""
    for (blob,) in step.tx.rows("select hash from blob where refs = 0"):
        _drop(step, blob)


def forget(step: Step, blobs: Iterable[str]) -> None:
    """Removes the rows of blobs whose files are gone."""
    for blob in blobs:
        step.tx.change("delete from blob where hash = ? and refs = 0", (blob,))


def drop_unnamed(step: Step, blob: str) -> None:
    """Has a file deleted that was finished after the last reference to it had gone."""
    if step.tx.one("select 1 from blob where hash = ? and refs > 0", (blob,)) is None:
        _drop(step, blob)


def known(tx: Tx) -> frozenset[str]:
    """Every blob that has a row: a file of no other one is of use to anybody."""
    return frozenset(row[0] for row in tx.rows("select hash from blob"))
