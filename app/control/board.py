"""What there is to see, and the numbered differences between one moment and the next.

Owns: the current items and their number. Must not: know where items come from or who looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from app.control.messages import Delta, Item, Snapshot

__all__ = ["Board", "follow"]


@dataclass(slots=True)
class Board:
    """Items by key."""

    items: dict[str, Item] = field(default_factory=dict)
    number: int = 0

    def show(self, items: Iterable[Item]) -> Delta | None:
        """Puts exactly these items up; the difference, or None when there is none."""
        new = {item.key: item for item in items}
        changed = tuple(item for key, item in new.items() if self.items.get(key) != item)
        removed = tuple(key for key in self.items if key not in new)
        if not changed and not removed:
            return None
        self.items = new
        self.number += 1
        return Delta(self.number, changed, removed)

    def snapshot(self, request: int) -> Snapshot:
        """Everything, as the answer to a request."""
        return Snapshot(request, self.number, tuple(self.items.values()))


def follow(items: dict[str, Item], delta: Delta) -> dict[str, Item]:
    """The items after a delta, for a program that follows."""
    kept = {key: item for key, item in items.items() if key not in delta.removed}
    return kept | {item.key: item for item in delta.changed}
