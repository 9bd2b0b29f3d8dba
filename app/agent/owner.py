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
from app.policy.choices import Choices
from app.policy.combine import CardRuling
from app.policy.intent import LEND, Intent
from app.policy.machine import PolicyMachine
from app.policy.rule import Rule
from app.policy.rules import RULES
from app.policy.snapshot import Snapshot
from gpugoblin.errors import AgentError

__all__ = ["Owner"]

REMEMBERED_INTENTS: Final = 256


@dataclass(slots=True)
class Owner:
    """The owner of the cards with the numbers in `cards`. `choices`: what the rules read."""

    state: State
    cards: tuple[int, ...]
    intents: dict[int, Intent]
    choices: Choices
    rules: tuple[Rule, ...] = RULES
    policy: PolicyMachine = field(default_factory=PolicyMachine)
    _sent: dict[int, RulingChanged] = field(default_factory=dict)
    _seen: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED_INTENTS))

    def wants(self, intent: Intent, cards: Iterable[int]) -> bool:
        """Takes an intent for some cards, or for all when `cards` is empty; on disk when done.

        Returns:
            False when an intent of this id was taken before; nothing changes then.

        Raises:
            AgentError: `card_unknown`, `state_unwritable`; nothing changes then.
        """
        known = list(self.cards)
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
                self._sent.pop(card, None)
        return True

    def drained(self, card: int) -> None:
        """The last task of a card that was to finish has ended."""
        intent = self.intents.get(card, LEND)
        if intent.kind == "finish" and not intent.drained:
            self.intents = {**self.intents, card: replace(intent, drained=True)}
            self.state.keep_intents(self.intents)

    def rule(self, snapshot: Snapshot) -> tuple[CardRuling, ...]:
        """The rulings that have changed."""
        return self.policy.rule(snapshot, self.rules, self.intents, self.choices)

    def next_change_s(self, snapshot: Snapshot) -> float | None:
        """When a ruling may change by itself (Unix seconds)."""
        return self.policy.next_change_s(snapshot)

    def gives_up_grants(self, card: int) -> bool:
        return self.intents.get(card, LEND).kind == "stop"

    def events(self, rulings: Iterable[CardRuling]) -> list[RulingChanged]:
        """Changed rulings as events of the machine, where more than their reasons changed."""
        found: list[RulingChanged] = []
        for each in rulings:
            event = RulingChanged(
                card=each.card,
                # The names of `Ruling` are the words of the event.
                ruling=each.ruling.name,  # type: ignore[arg-type]
                is_draining=each.is_draining,
                duty_percent=each.duty_percent,
                gives_up_grants=self.gives_up_grants(each.card),
            )
            if self._sent.get(each.card) != event:
                self._sent[each.card] = event
                found.append(event)
        return found
