"""Keeps the history while cards work: opens, counts and closes stretches, and the day's bytes.

Owns: the open stretches and when they are written. Must not: hold work up: a history that cannot be
written is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Final

from app.agent.energy import EnergyMeter
from app.agent.history import History, Stretch
from gpugoblin.errors import AgentError

__all__ = ["Bookkeeper", "Now", "Works"]

PERIOD_S: Final = 60.0
PRUNE_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Works:
    """What one card does now.

    Args:
        lab: for which its engine runs; empty when it does not.
        hottest_c, power_w, energy_mj: as the probes tell, where they do.
    """

    lab: str
    hottest_c: float | None = None
    power_w: float | None = None
    energy_mj: int | None = None


@dataclass(frozen=True, slots=True)
class Now:
    """The moment (Unix seconds), the zone, all bytes since the start, and the price of energy."""

    now_s: float
    zone: tzinfo
    received: int
    sent: int
    per_kwh: float = 0.0
    currency: str = "EUR"


@dataclass(slots=True)
class Bookkeeper:
    """Used in the loop's thread.

    Args:
        meters: by card.
        failed: told why the history cannot be written, once until it can again.
    """

    history: History
    meters: Mapping[int, EnergyMeter]
    failed: Callable[[AgentError], None]
    _open: dict[int, Stretch] = field(default_factory=dict)
    _busy_s: dict[int, float] = field(default_factory=dict)
    _looked_s: float = 0.0
    _written: tuple[int, int] = (0, 0)
    _shared: tuple[int, int] = (0, 0)
    _pruned_s: float = 0.0
    _is_failing: bool = False

    def task(self, card: int, busy_s: float) -> None:
        """A result was computed."""
        stretch = self._open.get(card)
        if stretch is not None:
            stretch.tasks += 1
            stretch.busy_s += busy_s
            self._busy_s[card] = self._busy_s.get(card, 0.0) + busy_s

    def next_s(self) -> float | None:
        """When to look next (Unix seconds); None while nothing works."""
        return self._looked_s + PERIOD_S if self._open else None

    def look(self, works: Mapping[int, Works], now: Now) -> None:
        """Counts what has happened; writes once a minute and when a stretch ends."""
        is_due = now.now_s - self._looked_s >= PERIOD_S or now.now_s < self._looked_s
        ended = [card for card, each in self._open.items() if works[card].lab != each.lab]
        begun = [card for card, each in works.items() if each.lab and card not in self._open]
        if not (is_due and self._open) and not ended and not begun:
            return
        for card, stretch in self._open.items():
            self._count(stretch, works[card], now)
        self._share_bytes(now)
        closed = [self._open.pop(card) for card in ended]
        self._keep([*closed, *self._open.values()], now)
        for card, each in works.items():
            if each.lab and card not in self._open:
                self._open[card] = Stretch(card, each.lab, now.now_s, now.now_s, now.currency)
                self.meters[card].sample(0.0, 0.0, each.power_w, each.energy_mj)
                self._busy_s[card] = 0.0
        self._looked_s = now.now_s

    def _count(self, stretch: Stretch, works: Works, now: Now) -> None:
        elapsed_s = max(0.0, now.now_s - max(self._looked_s, stretch.begin_s))
        busy_s = self._busy_s.pop(stretch.card, 0.0)
        energy_wh, source = self.meters[stretch.card].sample(
            elapsed_s, busy_s, works.power_w, works.energy_mj
        )
        stretch.energy_wh += energy_wh
        if energy_wh:
            stretch.energy_source = source
        stretch.cost += energy_wh / 1000.0 * now.per_kwh
        stretch.end_s = max(stretch.end_s, now.now_s)
        peaks = [peak for peak in (stretch.peak_c, works.hottest_c) if peak is not None]
        stretch.peak_c = max(peaks, default=None)

    def _share_bytes(self, now: Now) -> None:
        """Bytes since the last look go to the open stretches; alike where there are several."""
        received, sent = now.received - self._shared[0], now.sent - self._shared[1]
        if not self._open:
            return
        self._shared = (now.received, now.sent)
        for number, stretch in enumerate(self._open.values()):
            stretch.received += received // len(self._open) + (number < received % len(self._open))
            stretch.sent += sent // len(self._open) + (number < sent % len(self._open))

    def _keep(self, stretches: list[Stretch], now: Now) -> None:
        day = datetime.fromtimestamp(now.now_s, now.zone).date().isoformat()
        try:
            self.history.keep(
                stretches, day, now.received - self._written[0], now.sent - self._written[1]
            )
            if now.now_s - self._pruned_s >= PRUNE_S:
                self.history.prune(now.now_s, now.zone)
                self._pruned_s = now.now_s
        except AgentError as error:
            if not self._is_failing:
                self.failed(error)
            self._is_failing = True
            return
        self._is_failing = False
        self._written = (now.received, now.sent)

    def close(self, now: Now) -> None:
        """Writes what is open."""
        for stretch in self._open.values():
            self._count(stretch, Works(stretch.lab), now)
        self._share_bytes(now)
        self._keep(list(self._open.values()), now)
        self._open.clear()
        self.history.close()

    def traffic(self, now: Now) -> tuple[int, int]:
        """Bytes of today and of this month, those that are not written yet included."""
        day_bytes, month_bytes = self.history.traffic(now.now_s, now.zone)
        unwritten = now.received - self._written[0] + now.sent - self._written[1]
        return day_bytes + unwritten, month_bytes + unwritten
