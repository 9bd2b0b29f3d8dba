"""What changed between two decisions: the memory of the rules, and the age of a FREEZE.

Owns: the memory, and the one rule about time: a FREEZE keeps memory, so it is for causes that pass
quickly; after `FREEZE_LIMIT_S` it becomes a STOP. Must not: read a clock; start or stop anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from app.policy.choices import Choices
from app.policy.combine import CardRuling, Memory, decide
from app.policy.intent import Intent
from app.policy.rule import Rule, Ruling
from app.policy.snapshot import Snapshot

__all__ = ["FREEZE_LIMIT_S", "PolicyMachine", "is_told"]

FREEZE_LIMIT_S: Final = 30.0


def is_told(old: CardRuling | None, new: CardRuling) -> bool:
    """True when people want to hear of it: more has changed than the moment of the next change."""
    return old is None or _gist(old) != _gist(new)


def _gist(ruling: CardRuling) -> tuple[object, ...]:
    codes = tuple(reason.code for reason in ruling.reasons)
    return (ruling.ruling, codes, ruling.is_draining, ruling.duty_percent)


@dataclass(slots=True)
class PolicyMachine:
    """Remembers each card's last ruling, since when it is frozen, and what the rules held."""

    current: dict[int, CardRuling] = field(default_factory=dict)
    memory: Memory = field(default_factory=lambda: MappingProxyType({}))
    _frozen_since_s: dict[int, float] = field(default_factory=dict)

    def rule(
        self,
        snapshot: Snapshot,
        rules: Sequence[Rule],
        intents: Mapping[int, Intent],
        choices: Choices,
    ) -> tuple[CardRuling, ...]:
        """Decides and applies; the rulings that differ from the last ones."""
        rulings, self.memory = decide(snapshot, rules, intents, choices, self.memory)
        return self.apply(rulings, snapshot.monotonic_s)

    def apply(self, rulings: Sequence[CardRuling], now_s: float) -> tuple[CardRuling, ...]:
        """The rulings that differ from the last ones, aged, in the given order.

        Args:
            now_s: monotonic.
        """
        changed: list[CardRuling] = []
        for ruling in rulings:
            aged = self._aged(ruling, now_s)
            if self.current.get(aged.card) != aged:
                self.current[aged.card] = aged
                changed.append(aged)
        return tuple(changed)

    def next_freeze_end_s(self) -> float | None:
        """When the first FREEZE becomes a STOP (monotonic); None while nothing is frozen."""
        frozen = [
            since_s + FREEZE_LIMIT_S
            for card, since_s in self._frozen_since_s.items()
            if self.current[card].ruling is Ruling.FREEZE
        ]
        return min(frozen, default=None)

    def next_change_s(self, snapshot: Snapshot) -> float | None:
        """When a ruling may change by itself (Unix seconds); None where none will."""
        now_s = snapshot.now_s
        ends = [
            reason.until_s
            for ruling in self.current.values()
            for reason in ruling.reasons
            if reason.until_s is not None and reason.until_s > now_s
        ]
        freeze_s = self.next_freeze_end_s()
        if freeze_s is not None:
            ends.append(now_s + max(0.0, freeze_s - snapshot.monotonic_s))
        return min(ends, default=None)

    def _aged(self, ruling: CardRuling, now_s: float) -> CardRuling:
        if ruling.ruling != Ruling.FREEZE:
            self._frozen_since_s.pop(ruling.card, None)
            return ruling
        since_s = self._frozen_since_s.setdefault(ruling.card, now_s)
        if now_s - since_s < FREEZE_LIMIT_S:
            return ruling
        return replace(ruling, ruling=Ruling.STOP)
