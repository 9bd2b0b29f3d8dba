"""Which blobs lie in an engine's input arena, so that one that several tasks need goes in once.

Owns: slots by blob, who needs them, what is thrown out. Must not: write bytes; block. Used from the
loop's thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from app.host.arena import Arena, Slot
from gpugoblin.errors import EngineError
from gpugoblin.ids import BlobHash, LeaseId

__all__ = ["Place", "Residency"]


@dataclass(slots=True)
class Place:
    """A blob in the arena and the leases that need it."""

    slot: Slot
    leases: set[LeaseId] = field(default_factory=set)


class Residency:
    """The blobs of one input arena, the one used longest ago first."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._places: OrderedDict[BlobHash, Place] = OrderedDict()

    def take(self, blob: BlobHash, nbytes: int, lease: LeaseId) -> tuple[Place, bool]:
        """A place for a blob, held for `lease` until `release`.

        Returns:
            The place, and whether the caller must fill it (or `forget` the blob).

        Raises:
            EngineError: `arena_full`: what other leases hold leaves no room.
        """
        place = self._places.get(blob)
        is_new = place is None
        if place is None:
            place = Place(self._allocate(nbytes))
            self._places[blob] = place
        self._places.move_to_end(blob)
        place.leases.add(lease)
        return place, is_new

    def release(self, lease: LeaseId) -> None:
        """Takes the holds of a lease off; its blobs stay as long as there is room."""
        for place in self._places.values():
            place.leases.discard(lease)

    def forget(self, blob: BlobHash) -> None:
        """Throws out a blob that could not be loaded."""
        place = self._places.pop(blob, None)
        if place is not None:
            self._arena.free(place.slot)

    def _allocate(self, nbytes: int) -> Slot:
        while True:
            try:
                return self._arena.allocate(nbytes)
            except EngineError as full:
                unused = next((b for b, each in self._places.items() if not each.leases), None)
                if full.code != "arena_full" or unused is None:
                    raise
                self.forget(unused)
