"""One look at all cards: temperatures, fans, power, memory and users, under every name they have.

Owns: putting the vendors' and the kernel's tellings together. Must not: know the agent's numbers of
cards, or judge a reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from app.policy.snapshot import CardFacts, ForeignUse
from app.probes.gpus.drm import DRM, NVIDIA, DrmCard, DrmUses, drm_cards
from app.probes.gpus.nvml import Nvml, NvmlCard, load_nvml
from app.probes.polls import Pace
from app.probes.sensors import HWMON, Monitor, monitors

__all__ = ["CardProbe", "lenders"]

PROC: Final = Path("/proc")
_LOCK: Final = "@gpugoblin-card-"
MOST_SOCKET_BYTES: Final = 4 * 1024 * 1024


def lenders(root: Path = PROC) -> frozenset[str]:
    """Identities of the cards that any agent of this machine lends now, by their locks."""
    try:
        with (root / "net" / "unix").open("rb") as file:
            text = file.read(MOST_SOCKET_BYTES).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    words = (line.rpartition(" ")[2] for line in text.splitlines())
    return frozenset(word[len(_LOCK) :] for word in words if word.startswith(_LOCK))


class CardProbe:
    """Looks at all cards of the machine.

    Args:
        ours: the processes that are ours.
        held: identities of the cards that this agent itself lends now.
        load: gives NVML's module; None as long as there is no such driver, which may come later.
    """

    name = "cards"
    source = "hwmon"
    periods_s: dict[Pace, float]

    def __init__(
        self,
        ours: Callable[[], Iterable[int]],
        held: Callable[[], Iterable[str]],
        *,
        load: Callable[[], Any] = lambda: None,
        hwmon: Path = HWMON,
        drm: Path = DRM,
        proc: Path = PROC,
    ) -> None:
        self.periods_s = {"off": 60.0, "waiting": 15.0, "lending": 2.0}
        self._held = held
        self._hwmon, self._drm, self._proc = hwmon, drm, proc
        self._uses = DrmUses(ours, proc)
        self._ours, self._load = ours, load
        self._nvml: Nvml | None = None
        self._seen: dict[str, CardFacts] = {}
        self.energy_mj: dict[str, int] = {}

    @classmethod
    def of_this_machine(
        cls, ours: Callable[[], Iterable[int]], held: Callable[[], Iterable[str]]
    ) -> CardProbe:
        """With whatever libraries this machine has."""
        return cls(ours, held, load=load_nvml)

    def look(self) -> dict[str, CardFacts]:
        """Facts by identity: `cpu`, UUIDs and PCI addresses. A card that is gone says so."""
        told = monitors(self._hwmon)
        found: dict[str, CardFacts] = {"cpu": _processor(told)}
        by_address = {each.address: each for each in told if each.address}
        cards = [card for card in drm_cards(self._drm) if card.vendor != NVIDIA]
        uses = self._uses.look() if cards else {}
        for card in cards:
            found[card.address] = _card(card, by_address.get(card.address), uses)
        for each in self._nvidias():
            found[each.uuid] = found[each.address] = each.facts
            if each.energy_mj is not None:
                self.energy_mj[each.uuid] = self.energy_mj[each.address] = each.energy_mj
        for identity in self._seen.keys() - found.keys():
            found[identity] = CardFacts(0, "vulkan", trouble="it was unplugged")
        self._seen = found
        return self._with_lenders(found)

    def _nvidias(self) -> tuple[NvmlCard, ...]:
        if self._nvml is None:
            library = self._load()
            if library is None:
                return ()
            self._nvml = Nvml(library, self._ours)
        return self._nvml.look()

    def _with_lenders(self, found: dict[str, CardFacts]) -> dict[str, CardFacts]:
        strangers = lenders(self._proc) - set(self._held())
        lent = {identity: _lent(facts) for identity, facts in found.items()
                if identity in strangers and identity != "cpu"}  # fmt: skip
        return {**found, **lent}


def _processor(told: Iterable[Monitor]) -> CardFacts:
    """The processor's sensors, and those of the disks."""
    chosen = [
        sensor for each in told for sensor in each.sensors if sensor.part in ("processor", "disk")
    ]
    return CardFacts(0, "cpu", sensors=tuple(chosen))


def _card(
    card: DrmCard, told: Monitor | None, uses: dict[str, tuple[ForeignUse, ...]]
) -> CardFacts:
    foreign = uses.get(card.address, ())
    return CardFacts(
        0,
        "vulkan",
        sensors=() if told is None else told.sensors,
        fan_rpm=None if told is None else told.fan_rpm,
        foreign=foreign,
        memory_bytes=card.memory_bytes,
        memory_used_bytes=sum(use.memory_bytes for use in foreign),
        power_w=None if told is None or told.power_w is None else round(told.power_w),
        limit_w=None if told is None else told.limit_w,
        default_w=None if told is None else told.default_w,
    )


def _lent(facts: CardFacts) -> CardFacts:
    user = ForeignUse("another agent of this machine", 0, is_lender=True)
    return replace(facts, foreign=(user, *(facts.foreign or ())))
