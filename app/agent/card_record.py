"""What the agent remembers of its cards between starts: proofs, faults.

Owns: `cards.json` in the state directory. Must not: judge a card. What is remembered holds for one
driver and one build only: where either is another, the card is as new. A file that cannot be read
is as none, since all of it is found out again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from app.agent.state import read_kept, write_kept
from app.host.spec import Ready
from gpugoblin.errors import AgentError

__all__ = ["CardRecord", "CardRecords", "record_key"]

NAME: Final = "cards.json"
MOST_CARDS: Final = 64

_Names = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")], ...], Meta(max_length=64)
]
_Words = Annotated[str, Meta(max_length=1000)]


class CardRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """One card with one driver and one build.

    Args:
        key: which these are (`record_key`).
        proven_s: when it gave every known answer (wall clock); 0 for never, or not since a fault.
        fault, fix: what was wrong the last time, for people; empty where nothing was.
        suspects: kernels that ran when the card was lost; each runs by itself from then on.
        suspected_s: when that was (wall clock).
        refused: kernels of which it is known that they lose it; they are not run.
        warmed: the driver, as it is found before an engine starts, that kernels were compiled for.
        compiled: the hash of the file in which these are kept; empty where the driver keeps none.
        untaken: how many such files in a row the driver did not take back.
    """

    key: _Words = ""
    proven_s: float = 0.0
    fault: _Words = ""
    fix: _Words = ""
    suspects: _Names = ()
    refused: _Names = ()
    warmed: _Words = ""
    compiled: _Words = ""
    suspected_s: float = 0.0
    untaken: Annotated[int, Meta(ge=0)] = 0


class _Kept(Struct, frozen=True, forbid_unknown_fields=True):
    cards: Annotated[dict[str, CardRecord], Meta(max_length=MOST_CARDS)] = {}


def record_key(ready: Ready) -> str:
    """Driver, build and kernels of an engine in one word."""
    return f"{ready.driver} {ready.build} {ready.kernel_set[:16]}"


class CardRecords:
    """All cards of one state directory. From any thread.

    Args:
        directory: made by the agent; None keeps nothing on disk.
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / NAME
        self._lock = threading.Lock()
        self._cards = {} if self._path is None else _read(self._path)

    def of(self, identity: str) -> CardRecord:
        """What is remembered, whatever the driver was. Never waits for the disk."""
        return self._cards.get(identity, CardRecord())

    def known(self, identity: str, key: str) -> CardRecord:
        """What is remembered under this key; a fresh record where it is another one."""
        found = self.of(identity)
        return found if found.key == key else CardRecord(key)

    def change(
        self, identity: str, key: str, change: Callable[[CardRecord], CardRecord]
    ) -> CardRecord:
        """Keeps what `change` makes of `known`; blocks for the disk.

        That it cannot be written is no reason to lend nothing: it is known until the agent ends.
        """
        with self._lock:
            old = self._cards.get(identity, CardRecord())
            new = change(old if old.key == key else CardRecord(key))
            if new != old:
                cards = {name: card for name, card in self._cards.items() if name != identity}
                cards[identity] = new  # the latest is last, the oldest goes first
                while len(cards) > MOST_CARDS:
                    del cards[next(iter(cards))]
                self._cards = cards  # at once: `of` is asked meanwhile
                self._write()
            return new

    def _write(self) -> None:
        if self._path is None or not self._path.parent.is_dir():
            return
        try:
            write_kept(self._path, _Kept(self._cards))
        except AgentError:
            return


def _read(path: Path) -> dict[str, CardRecord]:
    try:
        kept = read_kept(path, _Kept)
    except AgentError:
        return {}
    return {} if kept is None else dict(kept.cards)
