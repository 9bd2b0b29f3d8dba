"""Which number a card has: the same for as long as the agent remembers it.

Owns: `numbers.json` in the state directory. Must not: know a card beyond its identity. Settings,
the owner's words, the history and grants name a card by its number, so that one which is unplugged,
or which another is plugged in beside, must not make them speak of another card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from app.agent.state import read_kept, write_kept
from gpugoblin.errors import AgentError

__all__ = ["MOST_NUMBER", "CardNumbers", "numbered"]

NAME: Final = "numbers.json"
MOST_NUMBER: Final = 63
"""The largest number that the wire has; 0 is the processor's."""

_Number = Annotated[int, Meta(ge=1, le=MOST_NUMBER)]
_Identity = Annotated[str, Meta(min_length=1, max_length=300)]


class _Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """By identity; the cards that were here last come last."""

    cards: Annotated[dict[_Identity, _Number], Meta(max_length=MOST_NUMBER)] = {}


def numbered(known: Mapping[str, int], identities: Sequence[str]) -> dict[str, int]:
    """All numbers, with one for each of `identities` as far as they go; those come last.

    A new card gets the first number that no card ever had. Where there is none it gets that of the
    card which has been gone for the longest; a card beyond that gets none.
    """
    gone = {name: number for name, number in known.items() if name not in identities}
    here = {name: known[name] for name in identities if name in known}
    for name in identities:
        if name in here:
            continue
        taken = {*gone.values(), *here.values()}
        free = next((each for each in range(1, MOST_NUMBER + 1) if each not in taken), None)
        if free is None and gone:
            free = gone.pop(next(iter(gone)))
        if free is not None:
            here[name] = free
    return gone | here


class CardNumbers:
    """The numbers of one state directory. Belongs to the loop's thread.

    Args:
        directory: where there is none, nothing is kept on disk.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._known = _read(self._path)

    def of(self, identities: Sequence[str]) -> dict[str, int]:
        """The number of each card, in the order given, and kept; blocks for the disk.

        That it cannot be written is no reason to lend nothing: it holds until the agent ends.
        """
        wanted = list(dict.fromkeys(identities))
        known = numbered(self._known, wanted)
        if list(known.items()) != list(self._known.items()):
            self._known = known
            self._write()
        return {name: known[name] for name in wanted if name in known}

    def _write(self) -> None:
        if not self._path.parent.is_dir():
            return
        try:
            write_kept(self._path, _Kept(self._known))
        except AgentError:
            return


def _read(path: Path) -> dict[str, int]:
    """What cannot be read is as none: cards are numbered as at the first start."""
    try:
        kept = read_kept(path, _Kept)
    except AgentError:
        return {}
    known = {} if kept is None else kept.cards
    return dict(known) if len(set(known.values())) == len(known) else {}
