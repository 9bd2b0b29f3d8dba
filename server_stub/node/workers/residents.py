"""Inputs that lie in the engine's arena, and stay there while they are useful.

Owns: which slots hold which bytes, who uses them, and which go when room is needed. Must not: read
files (the caller's `load` does).

One panel of a product stays for all tasks of its affinity this way, without anybody saying so. The
oldest unused tensor goes first. When all are in use, the next task waits, which is what keeps the
node's memory within its setting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from app.host.arena import Arena, Slot
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError, VerifyError

__all__ = ["Resident", "Residents", "Stopped"]


class Stopped(Exception):
    """The worker is ending while an item waits for room."""


@dataclass(slots=True, eq=False)
class Resident:
    """One tensor in the arena.

    Args:
        blob: the hash of its bytes. energy: `verify.product.row_energy` where it was summed.
    """

    key: str
    slot: Slot
    blob: str = ""
    energy: Array | None = None
    users: int = 0
    used_at: int = 0


@dataclass(slots=True, eq=False)
class _Counters:
    clock: int = 0
    items: int = 0
    stopped: bool = False


@dataclass(slots=True)
class Residents:
    """Inputs and output slots of the items under way.

    Args:
        lock: guards both arenas; also used by the engine's thread.
        cache_bytes: inputs in the arena at most, unless a single item needs more.
    """

    inputs: Arena
    outputs: Arena
    lock: threading.Condition
    cache_bytes: int
    _known: dict[str, Resident] = field(default_factory=dict)
    _count: _Counters = field(default_factory=_Counters)

    def acquire(self, key: str, nbytes: int, load: Callable[[Resident], None]) -> Resident:
        """The resident of that key, loaded now if it is not there. Called by one thread only.

        Raises:
            VerifyError: `item_too_large`. Stopped: the worker ends.
        """
        with self.lock:
            self._count.clock += 1
            found = self._known.get(key)
            if found is not None:
                found.users += 1
                found.used_at = self._count.clock
                return found
            fresh = Resident(key, self._input_slot(nbytes), users=1, used_at=self._count.clock)
        try:
            load(fresh)
        except BaseException:
            with self.lock:
                self.inputs.free(fresh.slot)
                self.lock.notify_all()
            raise
        with self.lock:
            self._known[key] = fresh
        return fresh

    def holds(self, key: str) -> bool:
        """Whether the resident of that key is loaded."""
        with self.lock:
            return key in self._known

    def output(self, nbytes: int) -> Slot:
        """A slot for an output. Raises as `acquire`."""
        with self.lock:
            while True:
                try:
                    return self.outputs.allocate(nbytes)
                except EngineError as full:
                    self._wait_for_items(full, nbytes)

    def begin(self) -> None:
        """An item has all that it needs and is on its way; `end` will give it back."""
        with self.lock:
            self._count.items += 1

    def end(self, used: Sequence[Resident], slots: Sequence[Slot], *, begun: bool) -> None:
        """Gives back what an item used."""
        with self.lock:
            for resident in used:
                resident.users -= 1
                if resident.users == 0 and self._known.get(resident.key) is not resident:
                    self.inputs.free(resident.slot)
            for slot in slots:
                self.outputs.free(slot)
            if begun:
                self._count.items -= 1
            self.lock.notify_all()

    def forget(self, resident: Resident) -> None:
        """The bytes are not to be used again once nobody uses them."""
        with self.lock:
            known = self._known.pop(resident.key, None)
            if known is resident and resident.users == 0:
                self.inputs.free(resident.slot)
            self.lock.notify_all()

    def stop(self) -> None:
        """Wakes whoever waits for room, with `Stopped`."""
        with self.lock:
            self._count.stopped = True
            self.lock.notify_all()

    def _input_slot(self, nbytes: int) -> Slot:
        while True:
            alone = self._count.items == 0 and not self._oldest_unused()
            if self._held_bytes() + nbytes <= self.cache_bytes or alone:
                try:
                    return self.inputs.allocate(nbytes)
                except EngineError as full:
                    if alone:
                        self._wait_for_items(full, nbytes)
            oldest = self._oldest_unused()
            if oldest is not None:
                del self._known[oldest.key]
                self.inputs.free(oldest.slot)
            elif self._count.items > 0:
                self._wait()

    def _held_bytes(self) -> int:
        return sum(resident.slot.nbytes for resident in self._known.values())

    def _oldest_unused(self) -> Resident | None:
        unused = [resident for resident in self._known.values() if resident.users == 0]
        return min(unused, key=lambda resident: resident.used_at, default=None)

    def _wait_for_items(self, full: EngineError, nbytes: int) -> None:
        if self._count.items == 0:
            limit = self.outputs.size_bytes
            raise VerifyError("item_too_large", needed_bytes=nbytes, limit_bytes=limit) from full
        self._wait()

    def _wait(self) -> None:
        if self._count.stopped:
            raise Stopped
        self.lock.wait()
        if self._count.stopped:
            raise Stopped
