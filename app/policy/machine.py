"""What changed between two decisions, with the age of a FREEZE.

Owns: the one rule about time: a FREEZE keeps memory, so it is for causes that pass quickly; after
`FREEZE_LIMIT_S` it becomes a STOP. Must not: read a clock; start or stop anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from app.policy.combine import CardRuling
from app.policy.rule import Ruling

__all__ = ["FREEZE_LIMIT_S", "PolicyMachine"]

FREEZE_LIMIT_S: Final = 30.0


@dataclass(slots=True)
class PolicyMachine:
    """Remembers each card's last ruling and since when it is frozen."""

    current: dict[int, CardRuling] = field(default_factory=dict)
    _frozen_since_s: dict[int, float] = field(default_factory=dict)

    def apply(self, rulings: Sequence[CardRuling], now_s: float) -> tuple[CardRuling, ...]:
        """The rulings that differ from the last ones, aged, in the given order."""
        changed: list[CardRuling] = []
        for ruling in rulings:
            aged = self._aged(ruling, now_s)
            if self.current.get(aged.card) != aged:
                self.current[aged.card] = aged
                changed.append(aged)
        return tuple(changed)

    def _aged(self, ruling: CardRuling, now_s: float) -> CardRuling:
        if ruling.ruling != Ruling.FREEZE:
            self._frozen_since_s.pop(ruling.card, None)
            return ruling
        since_s = self._frozen_since_s.setdefault(ruling.card, now_s)
        if now_s - since_s < FREEZE_LIMIT_S:
            return ruling
        return replace(ruling, ruling=Ruling.STOP)
