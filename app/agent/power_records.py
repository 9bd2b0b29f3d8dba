"""Which cards' power limits agents of this machine have changed, and what they were before.

Owns: a record and a lock per card in one place of the whole system, so that two agents with state
directories of their own leave no card at the limit of the other. Must not: speak to a driver.

The place is below `/run`, since a limit lives as long as its driver: both are gone after a restart.
A lock belongs to a descriptor, so the kernel lets it go with its process, however that ends; what a
killed agent left can then be taken and put back by any other.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from app.agent.state import read_kept, write_kept
from gpugoblin.errors import AgentError

__all__ = ["PLACE", "Changed", "PowerRecords"]

PLACE: Final = Path("/run/gpugoblin-power")
MOST_CARDS: Final = 64
ROUNDED_MW: Final = 1000
"""A driver may round what it is told by less than this."""
WAIT_S: Final = 1.0
"""How long another agent may take to put a limit back, when a card has just gone from it to us."""
_POLL_S: Final = 0.05
_NAME: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]{0,79})\.json")

_Milliwatts = Annotated[int, Meta(ge=0, le=10_000_000)]


class Changed(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limit of a card before the first change, the one that was set, and the one before it.

    This is written before the driver is told, so that after a kill either of the two may hold.
    """

    before_mw: _Milliwatts
    set_mw: _Milliwatts
    last_mw: _Milliwatts | None = None

    def is_ours(self, now_mw: int) -> bool:
        """Is this limit one that an agent set?"""
        ours = (self.set_mw,) if self.last_mw is None else (self.set_mw, self.last_mw)
        return any(abs(now_mw - each) < ROUNDED_MW for each in ours)


class PowerRecords:
    """The records, as one agent sees them. Belongs to one thread; `drop` is for the end.

    Args:
        place: the directory; it is made when the first card is taken.
    """

    def __init__(self, place: Path = PLACE) -> None:
        self._place = place
        self._locks: dict[str, int] = {}

    def left(self) -> tuple[str, ...]:
        """Identities of cards with a record, whoever made it."""
        try:
            names = sorted(os.listdir(self._place))
        except OSError:
            return ()  # nobody has ever changed one
        found = [match[1] for name in names if (match := _NAME.fullmatch(name))]
        return tuple(found[:MOST_CARDS])

    def take(self, identity: str, wait_s: float | None = None) -> Changed | None:
        """Takes the lock of a card, which then is held until `forget`, and reads its record.

        Args:
            wait_s: how long it may be in another agent's hands meanwhile, `WAIT_S` if not said.

        Returns:
            What was changed by us or by an agent that has ended; None where nothing is. A record
            that cannot be read is as none: what it said cannot be known.

        Raises:
            AgentError: `power_limit_held`, `power_limit_forbidden`, `state_unwritable`.
        """
        if identity not in self._locks:
            self._make_place()
            self._locks[identity] = self._lock(identity, WAIT_S if wait_s is None else wait_s)
        try:
            return read_kept(self._record(identity), Changed)
        except AgentError:
            return None

    def keep(self, identity: str, changed: Changed) -> None:
        """Writes the record of a card whose lock is held. Raises AgentError `state_unwritable`."""
        write_kept(self._record(identity), changed)

    def forget(self, identity: str) -> None:
        """The limit is what it was, or another's: removes the record, and lets the lock go.

        Raises:
            AgentError: `state_unwritable`: the record is still there, and the lock held.
        """
        try:
            self._record(identity).unlink(missing_ok=True)
        except OSError as cause:
            path = self._record(identity)
            raise AgentError("state_unwritable", path=path, reason=cause.strerror) from cause
        descriptor = self._locks.pop(identity, None)
        if descriptor is not None:
            os.close(descriptor)

    def held(self) -> tuple[str, ...]:
        """Identities of the cards whose lock is held."""
        return tuple(self._locks)

    def drop(self) -> None:
        """Lets all locks go, as the end of the process does."""
        for identity in list(self._locks):
            os.close(self._locks.pop(identity))

    def _record(self, identity: str) -> Path:
        return self._place / f"{identity}.json"

    def _make_place(self) -> None:
        try:
            self._place.mkdir(mode=0o700, exist_ok=True)
            status = self._place.lstat()
        except PermissionError as cause:
            raise AgentError("power_limit_forbidden", path=self._place) from cause
        except OSError as cause:
            raise AgentError("state_unwritable", path=self._place, reason=cause.strerror) from cause
        is_safe = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022
        if not is_safe or status.st_uid != os.geteuid():
            raise AgentError("power_limit_forbidden", path=self._place)

    def _lock(self, identity: str, wait_s: float) -> int:
        path = self._place / f"{identity}.lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as cause:
            raise AgentError("state_unwritable", path=path, reason=cause.strerror) from cause
        deadline_s = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline_s:
                    time.sleep(_POLL_S)
                    continue
                pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                os.close(descriptor)
                raise AgentError("power_limit_held", pid=pid or "unknown") from None
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
