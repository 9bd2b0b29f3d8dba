"""What the owner wants and what the rules say, kept and turned into rulings.

Owns: the intents of all cards (on disk), and the asking of the policy. Must not: let anything but
the owner's own requests change an intent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from app.agent.events import RulingChanged
from app.agent.state import State
from app.policy.combine import CardRuling, decide
from app.policy.intent import LEND, Intent
from app.policy.machine import PolicyMachine
from app.policy.rules import RULES
from app.policy.snapshot import CardFacts, Snapshot
from gpugoblin.errors import AgentError

__all__ = ["Owner", "rulings_to_events"]

REMEMBERED_INTENTS: Final = 256


@dataclass(slots=True)
class Owner:
    """The owner of the cards in `cards`."""

    state: State
    cards: tuple[CardFacts, ...]
    intents: dict[int, Intent]
    policy: PolicyMachine = field(default_factory=PolicyMachine)
    _seen: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_INTENTS))

    def wants(self, intent: Intent, cards: Iterable[int]) -> bool:
        """Takes an intent for some cards, or for all when `cards` is empty; on disk when done.

        Returns:
            False when an intent of this id was taken before; nothing changes then.

        Raises:
            AgentError: `card_unknown`, `state_unwritable`; nothing changes then.
        """
        known = [facts.card for facts in self.cards]
        chosen = list(cards) or known
        for card in chosen:
            if card not in known:
                raise AgentError("card_unknown", card=card, known=known)
        if intent.intent and intent.intent in self._seen:
            return False
        changed = {**self.intents, **dict.fromkeys(chosen, intent)}
        self.state.keep_intents(changed)
        self.intents = changed
        self._seen.append(intent.intent)
        if intent.kind == "resume":  # told again even where it holds: a card that rests looks again
            for card in chosen:
                self.policy.current.pop(card, None)
        return True

    def drained(self, card: int) -> None:
        """The last task of a card that was to finish has ended."""
        intent = self.intents.get(card, LEND)
        if intent.kind == "finish" and not intent.drained:
            self.intents = {**self.intents, card: replace(intent, drained=True)}
            self.state.keep_intents(self.intents)

    def rule(self, now_s: float) -> tuple[CardRuling, ...]:
        """The rulings that have changed. `now_s`: Unix seconds."""
        rulings = decide(Snapshot(now_s, self.cards), RULES, self.intents)
        return self.policy.apply(rulings, now_s)

    def next_change_s(self) -> float | None:
        """When a ruling may ease by itself (Unix seconds)."""
        ends = [each.until_s for each in self.policy.current.values() if each.until_s is not None]
        return min(ends, default=None)

    def gives_up_grants(self, card: int) -> bool:
        return self.intents.get(card, LEND).kind == "stop"


def rulings_to_events(owner: Owner, rulings: Iterable[CardRuling]) -> list[RulingChanged]:
    """Changed rulings as events of the machine."""
    return [
        RulingChanged(
            card=each.card,
            ruling=each.ruling.name,  # type: ignore[arg-type]
            is_draining=each.is_draining,
            gives_up_grants=owner.gives_up_grants(each.card),
        )
        for each in rulings
    ]
