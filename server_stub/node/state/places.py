"""Places beside which a crash may leave a result file that no row names.

Owns: the rows of `meta` that begin with `place:`, and `restored`. A note is durable before the
first file is made, and goes in the transaction that names the file, or once it is deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from server_stub.node.state.words import Step
from server_stub.node.store.protocol import Tx

__all__ = ["RESTORED", "drop", "forget_restored", "is_restored", "known", "note", "noted"]

_PREFIX: Final = "place:"
RESTORED: Final = "restored"
"""The row of `meta` by which a node knows, until its first start, that it came out of a backup."""


def note(step: Step, finals: Sequence[str]) -> str:
    """Remembers the final paths of results; returns the note, empty where there is no path."""
    if not finals:
        return ""
    key = step.fresh_id("place")
    step.tx.change("insert into meta values(?, ?)", (_PREFIX + key, json.dumps(list(finals))))
    return key


def drop(step: Step, key: str) -> None:
    """Forgets a note."""
    step.tx.change("delete from meta where key = ?", (_PREFIX + key,))


def noted(tx: Tx) -> dict[str, list[str]]:
    """All notes, with their final paths."""
    rows = tx.rows(
        "select key, value from meta where key >= ? and key < ?", (_PREFIX, _PREFIX + "~")
    )
    return {key.removeprefix(_PREFIX): json.loads(value) for key, value in rows}


def known(tx: Tx) -> frozenset[str]:
    """Every path that a row names: where an array is, or will be."""
    rows = tx.rows("select path, final_path from array")
    return frozenset(path for row in rows for path in row if path)


def is_restored(tx: Tx) -> bool:
    """Whether what lies outside the state directory may be another machine's."""
    return tx.one("select 1 from meta where key = ?", (RESTORED,)) is not None


def forget_restored(step: Step) -> None:
    """What was not there has been dealt with."""
    step.tx.change("delete from meta where key = ?", (RESTORED,))
