"""What a card of NVIDIA may draw while it lends, set in its driver and put back exactly.

Owns: `power.json` in the state directory, which says what a limit was before it is changed: the
next start puts back what a kill left behind. Must not: raise a limit, or touch one that another has
changed meanwhile. Only root may set one; without that the rule `power_cap` slows the card instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from app.agent.lane import Lane
from app.agent.state import read_kept, write_kept
from gpugoblin.errors import AgentError

__all__ = ["PowerLimits"]

NAME: Final = "power.json"
MOST_CARDS: Final = 64
ROUNDED_MW: Final = 1000
"""A driver may round what it is told by less than this."""
CLOSE_LIMIT_S: Final = 1.0
RETRY_S: Final = 60.0
"""How often it is tried again to put back what the driver did not take, or was not there for."""

_Milliwatts = Annotated[int, Meta(ge=0, le=10_000_000)]


class _Changed(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The limit of a card before the first change, the one that was set, and the one before it.

    This is on disk before the driver is told, so that after a kill either of the two may hold.
    """

    before_mw: _Milliwatts
    set_mw: _Milliwatts
    last_mw: _Milliwatts | None = None

    def is_ours(self, now_mw: int) -> bool:
        """Is this limit one that we set?"""
        ours = (self.set_mw,) if self.last_mw is None else (self.set_mw, self.last_mw)
        return any(abs(now_mw - each) < ROUNDED_MW for each in ours)


class _Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """By identity."""

    cards: Annotated[dict[str, _Changed], Meta(max_length=MOST_CARDS)] = {}


class PowerLimits:
    """The limits of all cards. Methods belong to the loop's thread; the driver has one of its own.

    Args:
        directory: the state directory.
        load: gives NVML's module, or another that answers like it; None as long as there is no
            driver, which may be loaded later. Asked on the lane.
        refused: told the identity of a card whose limit cannot be set, and why; once a card.
        monotonic_s: a clock that never goes back.
    """

    def __init__(
        self,
        directory: Path,
        load: Callable[[], Any],
        refused: Callable[[str, str], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._path = directory / NAME
        self._load = load
        self._nvml: Any = None
        self._refused = refused
        self._refusing: set[str] = set()
        self._told: set[str] = set()
        self._monotonic_s = monotonic_s
        self._called_s = 0.0
        self._changed = _read(self._path)
        self._wanted: dict[str, int] = {}
        self._is_open = False
        self._lane = Lane("power")
        self._calls: set[asyncio.Future[dict[str, str]]] = set()

    def begin(self) -> None:
        """Puts back what the last run left."""
        if self._changed:
            self._call({})

    def want(self, caps_w: Mapping[str, int]) -> None:
        """Which cards shall draw no more than so many watts from now on; all others as before.

        Said again, it is done again now and then, as long as not all of it could be done.
        """
        if caps_w == self._wanted and not self._is_due():
            return
        self._wanted = dict(caps_w)
        self._call(self._wanted)

    def close(self) -> None:
        """Puts everything back; waits a second for the driver."""
        if self._wanted or self._changed or self._calls:
            self._lane.call(lambda: self._settle({}))
        self._lane.end()
        self._lane.join(CLOSE_LIMIT_S)

    def _is_due(self) -> bool:
        if self._calls or self._monotonic_s() - self._called_s < RETRY_S:
            return False
        is_late = bool(self._wanted) and not self._is_open
        return is_late or bool(self._changed.keys() - self._wanted.keys())

    def _call(self, caps_w: dict[str, int]) -> None:
        self._called_s = self._monotonic_s()
        future: Future[dict[str, str]] = self._lane.call(lambda: self._settle(caps_w))
        call = asyncio.wrap_future(future)
        self._calls.add(call)
        call.add_done_callback(self._settled)

    def _settled(self, call: asyncio.Future[dict[str, str]]) -> None:
        self._calls.discard(call)
        if call.cancelled():
            return
        for identity, why in call.result().items():
            if identity not in self._told:
                self._told.add(identity)
                self._refused(identity, why)

    # -- on the lane -------------------------------------------------------------------------

    def _settle(self, caps_w: Mapping[str, int]) -> dict[str, str]:
        """Puts back and sets; the cards that refuse, and why."""
        if self._nvml is None:
            self._nvml = self._load()
        nvml = self._nvml
        if nvml is None:
            return {}
        if not self._is_open:
            try:
                nvml.nvmlInit()
            except nvml.NVMLError:
                return {}  # the probe says that the driver does not answer, and nothing is lent
            self._is_open = True
        for identity in [each for each in self._changed if each not in caps_w]:
            self._put_back(identity)
        self._refusing &= caps_w.keys()
        refusing: dict[str, str] = {}
        for identity, cap_w in caps_w.items():
            if identity in self._refusing:
                continue
            try:
                self._set(identity, cap_w * 1000)
            except (nvml.NVMLError, AgentError) as error:
                self._refusing.add(identity)
                refusing[identity] = str(error).rstrip(".")
                self._put_back(identity)
        return refusing

    def _set(self, identity: str, cap_mw: int) -> None:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByUUID(identity)
        now_mw = int(nvml.nvmlDeviceGetPowerManagementLimit(handle))
        least_mw, _ = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        known = self._changed.get(identity)
        if known is not None and not known.is_ours(now_mw):
            self._forget(
                identity
            )  # another has changed it since: from now on theirs is the old one
            known = None
        before_mw = now_mw if known is None else known.before_mw
        wanted_mw = min(max(cap_mw, int(least_mw)), before_mw)
        if wanted_mw == now_mw:
            return
        # On disk first: after a kill the next start has to know what it was.
        changed = _Changed(before_mw, wanted_mw, None if known is None else now_mw)
        self._keep({**self._changed, identity: changed})
        nvml.nvmlDeviceSetPowerManagementLimit(handle, wanted_mw)

    def _put_back(self, identity: str) -> None:
        known, nvml = self._changed.get(identity), self._nvml
        if known is None:
            return
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(identity)
            now_mw = int(nvml.nvmlDeviceGetPowerManagementLimit(handle))
            if known.is_ours(now_mw) and now_mw != known.before_mw:
                nvml.nvmlDeviceSetPowerManagementLimit(handle, known.before_mw)
        except nvml.NVMLError:
            return  # unplugged or lost: it is tried again at the next change and the next start
        try:
            self._forget(identity)
        except AgentError:
            return  # the next start finds a limit that is not ours any more, and forgets it

    def _forget(self, identity: str) -> None:
        self._keep({name: each for name, each in self._changed.items() if name != identity})

    def _keep(self, changed: dict[str, _Changed]) -> None:
        write_kept(self._path, _Kept(changed))
        self._changed = changed


def _read(path: Path) -> dict[str, _Changed]:
    """A file that cannot be read is as none: what it said cannot be known."""
    try:
        kept = read_kept(path, _Kept)
    except AgentError:
        return {}
    return {} if kept is None else dict(kept.cards)
