"""The facts of all probes, and from them a snapshot for the policy.

Owns: the latest fact and report of each probe. Must not: gather a fact, or judge one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Final, Literal, TypeAlias

from app.policy.snapshot import (
    CardFacts,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Snapshot,
)

__all__ = ["UNLOOKED", "CardReading", "FactBoard", "Health", "Report", "Tell"]

Health: TypeAlias = Literal["well", "absent", "unknown"]
_PCI: Final = re.compile(r"[0-9a-f]{4}:")
UNLOOKED: Final = "it has not been looked at yet"


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe says of itself.

    Args:
        health: `absent`: there is no such thing here, and its fact says so; `unknown`: its fact is
            None, and `line` says why.
        source: what it asks, for people.
    """

    name: str
    health: Health
    source: str
    line: str = ""


Tell: TypeAlias = Callable[[Report, object], None]
"""How a probe tells a fact; None for unknown. Called in the loop's thread."""

CardReading: TypeAlias = Mapping[str, CardFacts]
"""By identity: facts of cards, of which number and kind are not looked at."""


@dataclass(slots=True)
class FactBoard:
    """Used in the loop's thread.

    Args:
        changed: called after a fact has changed.
    """

    changed: Callable[[], None]
    zone: Callable[[], tzinfo]
    reports: dict[str, Report] = field(default_factory=dict)
    is_asleep: bool = False
    _idle: IdleFacts | None = None
    _play: PlayFacts | None = None
    _power: PowerFacts | None = None
    _network: NetworkFacts | None = None
    _load: LoadFacts | None = None
    _readings: CardReading | None = None

    def tell(self, report: Report, fact: object) -> None:
        """Takes a fact by its type, or forgets it when it is None."""
        slot = _SLOTS[report.name]
        is_same = getattr(self, slot) == fact and self.reports.get(report.name) == report
        setattr(self, slot, fact)
        self.reports[report.name] = report
        if not is_same:
            self.changed()

    @property
    def is_whole(self) -> bool:
        """True when every probe has told something."""
        return self.reports.keys() >= _SLOTS.keys()

    def sleep(self, is_asleep: bool) -> None:
        """The machine is about to sleep, or has woken."""
        if self.is_asleep != is_asleep:
            self.is_asleep = is_asleep
            self.changed()

    def snapshot(self, now_s: float, monotonic_s: float, cards: Iterable[CardFacts]) -> Snapshot:
        """The facts of now. `cards` gives numbers, kinds and identities, and the trouble."""
        return Snapshot(
            now_s=now_s,
            cards=tuple(self._card(card) for card in cards),
            monotonic_s=monotonic_s,
            zone=self.zone(),
            idle=self._idle,
            play=self._play,
            power=self._power,
            network=self._network,
            load=self._load,
            is_asleep=self.is_asleep,
            why_unknown=self._whys(),
        )

    def cards(self) -> tuple[CardFacts, ...]:
        """Every card that was seen, numbered in the order of identities; the processor is 0.

        A card of NVIDIA is told under two names, of which one is taken.
        """
        seen = self._readings or {}
        others = sorted(
            identity
            for identity, facts in seen.items()
            if identity != "cpu" and (facts.kind != "cuda" or not _PCI.match(identity))
        )
        return tuple(
            CardFacts(number, "cpu" if identity == "cpu" else seen[identity].kind, identity)
            for number, identity in enumerate(("cpu", *others))
        )

    def _card(self, card: CardFacts) -> CardFacts:
        if self._readings is None:
            return replace(card, sensors=None, foreign=None)
        # A driver that computes on the processor is as warm as that.
        name = "cpu" if card.identity.startswith("software-") else card.identity
        reading = self._readings.get(name)
        if reading is None:
            is_cpu = card.kind == "cpu"
            return replace(card, sensors=() if is_cpu else None, foreign=() if is_cpu else None)
        return replace(
            reading,
            card=card.card,
            kind=card.kind,
            identity=card.identity,
            trouble=card.trouble or reading.trouble,
        )

    def _whys(self) -> dict[str, str]:
        whys = {report.name: report.line for report in self.reports.values() if report.line}
        cards = whys.pop("cards", "")
        if cards:
            whys["sensors"] = whys["foreign"] = cards
        return whys


_SLOTS: Final[Mapping[str, str]] = {
    "idle": "_idle",
    "play": "_play",
    "power": "_power",
    "network": "_network",
    "load": "_load",
    "cards": "_readings",
}
