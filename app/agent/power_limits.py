"""What a card of NVIDIA may draw while it lends, set in its driver and put back exactly.

Owns: the order of record and driver: what a limit was is on disk before it is changed. Must not:
raise a limit, or touch one that another has changed meanwhile. Only root may set one; without that
the rule `power_cap` slows the card instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from app.agent.lane import Lane
from app.agent.power_records import Changed, PowerRecords
from app.probes.gpus.nvml_door import door_of
from gpugoblin.errors import AgentError

__all__ = ["PowerLimits"]

CLOSE_LIMIT_S: Final = 1.0
RETRY_S: Final = 60.0
"""How often it is tried again to put back what the driver did not take, or was not there for."""


class PowerLimits:
    """The limits of all cards. Methods belong to the loop's thread; the driver has one of its own.

    Args:
        records: of the whole machine.
        load: gives NVML's module, or another that answers like it; None as long as there is no
            driver, which may be loaded later. Asked on the lane.
        refused: told the identity of a card whose limit cannot be set, and why; once a card.
        monotonic_s: a clock that never goes back.
    """

    def __init__(
        self,
        records: PowerRecords,
        load: Callable[[], Any],
        refused: Callable[[str, str], None],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._records = records
        self._load = load
        self._nvml: Any = None
        self._refused = refused
        self._refusing: set[str] = set()
        self._told: set[str] = set()
        self._monotonic_s = monotonic_s
        self._called_s = 0.0
        self._wanted: dict[str, int] = {}
        self._is_late = False
        self._lane = Lane("power")
        self._calls: set[asyncio.Future[dict[str, str]]] = set()

    def begin(self) -> None:
        """Puts back what agents left that have ended, this one's last run among them."""
        if self._records.left():
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
        if self._wanted or self._is_late or self._calls:
            self._lane.call(lambda: self._settle({}))
        self._lane.end(self._records.drop)
        self._lane.join(CLOSE_LIMIT_S)

    def _is_due(self) -> bool:
        """Whether something is left to be done, and a minute has passed since it was tried."""
        return self._is_late and not self._calls and self._monotonic_s() - self._called_s >= RETRY_S

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

    def _settle(self, caps_w: Mapping[str, int], is_again: bool = False) -> dict[str, str]:
        """Puts back and sets; the cards that refuse, and why."""
        self._is_late = bool(caps_w) or bool(self._records.left())
        if self._nvml is None:
            self._nvml = self._load()
        nvml = self._nvml
        if nvml is None:
            return {}
        door = door_of(nvml)
        try:
            opening = door.open()
        except nvml.NVMLError:
            return {}  # the probe says that the driver does not answer, and nothing is lent
        late = {each for each in self._foreign(caps_w) if not self._put_back(each)}
        self._refusing &= caps_w.keys()
        refusing: dict[str, str] = {}
        is_renewed = False
        for identity, cap_w in caps_w.items():
            if identity in self._refusing:
                continue
            try:
                self._set(identity, cap_w * 1000)
            except (nvml.NVMLError, AgentError) as error:
                is_stale = door.renew(opening, error)
                is_renewed = is_renewed or is_stale
                if is_stale or _is_held(error):
                    late.add(identity)
                else:
                    self._refusing.add(identity)
                    refusing[identity] = _words(error)
                self._put_back(identity)
        if is_renewed and not is_again:  # its driver was reloaded: the same once more, of that one
            return {**refusing, **self._settle(caps_w, is_again=True)}
        self._is_late = bool(late)
        return refusing

    def _foreign(self, caps_w: Mapping[str, int]) -> set[str]:
        """Cards with a record or a lock that are not wanted now."""
        return ({*self._records.left(), *self._records.held()}) - caps_w.keys()

    def _set(self, identity: str, cap_mw: int) -> None:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByUUID(identity)
        known = self._records.take(identity)
        now_mw = int(nvml.nvmlDeviceGetPowerManagementLimit(handle))
        least_mw, _ = nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        if known is not None and not known.is_ours(now_mw):
            known = None  # another has changed it since: from now on theirs is the old one
        before_mw = now_mw if known is None else known.before_mw
        wanted_mw = min(max(cap_mw, int(least_mw)), before_mw)
        if wanted_mw == now_mw:
            if known is None:
                self._records.forget(identity)
            return
        # On disk first: after a kill the next start has to know what it was.
        changed = Changed(before_mw, wanted_mw, None if known is None else now_mw)
        self._records.keep(identity, changed)
        nvml.nvmlDeviceSetPowerManagementLimit(handle, wanted_mw)

    def _put_back(self, identity: str) -> bool:
        """Gives a card its own limit again; False where that has to be tried later.

        A card whose lock another agent holds is that one's, and no work of ours.
        """
        nvml = self._nvml
        try:
            known = self._records.take(identity, 0.0)
        except AgentError as error:
            return _is_held(error)
        try:
            if known is not None:
                handle = nvml.nvmlDeviceGetHandleByUUID(identity)
                now_mw = int(nvml.nvmlDeviceGetPowerManagementLimit(handle))
                if known.is_ours(now_mw) and now_mw != known.before_mw:
                    nvml.nvmlDeviceSetPowerManagementLimit(handle, known.before_mw)
            self._records.forget(identity)
        except (nvml.NVMLError, AgentError):
            return False  # unplugged, lost, or the disk is full: later, or at the next start
        return True


def _is_held(error: Exception) -> bool:
    return isinstance(error, AgentError) and error.code == "power_limit_held"


def _words(error: Exception) -> str:
    return (error.what if isinstance(error, AgentError) else str(error)).rstrip(".")
