"""What a card does right now, measured for its owner: a short product in a walled engine.

Owns: one measurement on the launcher's lane, at the owner's word: it takes a second. Presence,
hours and battery do not forbid it; a game, another program on the card, heat and want of memory do,
and end it when they come. Must not: disturb a card that lends; what its engine has shown is told
instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from app.agent.calibration import Rates
from app.agent.engine_start import EngineStart
from app.agent.fleet import Card, Fleet, Guest
from app.agent.view import reason_items
from app.control import words
from app.host.engine import Engine
from app.policy.combine import CardRuling
from gpugoblin.errors import AgentError, EngineError

__all__ = ["FORBIDDING", "Shown", "Trial"]

FORBIDDING: Final = frozenset(
    {
        "card_unusable", "machine_sleeps", "game_runs", "program_runs", "full_screen",
        "play_unknown", "card_used", "lent_by_another", "card_memory_short", "foreign_unknown",
        "memory_short", "hot", "sensor_lies", "sensors_unknown", "fan_fast", "on_ups",
    }
)  # fmt: skip
"""Reasons that hold for a second of measuring as well: nobody's game may stutter for it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a card has shown. `is_fresh`: measured for this question."""

    rates: Rates
    level: str
    is_fresh: bool


class Trial:
    """Measures the cards of a fleet, one at a time. Belongs to the loop's thread.

    Args:
        ruling: what the rules say of a card now.
    """

    def __init__(self, fleet: Fleet, ruling: Callable[[int], CardRuling | None]) -> None:
        self._fleet = fleet
        self._ruling = ruling
        self._call: EngineStart | None = None
        self._card: int | None = None

    async def __call__(self, number: int) -> Shown:
        """Measures a card.

        Raises:
            AgentError: `card_unknown`, `card_taken`, `trial_busy`, `trial_forbidden`.
            SandboxError, EngineError: why no engine starts on it.
        """
        known = list(self._fleet.cards)
        card = self._fleet.cards.get(number)
        if card is None:
            raise AgentError("card_unknown", card=number, known=known)
        ready, rates = card.engine.ready, card.engine.rates
        if card.lock is not None and ready is not None and rates is not None:
            return Shown(rates, ready.level, is_fresh=False)
        if self._call is not None:
            raise AgentError("trial_busy")
        self._refuse(number)

        def make() -> Engine:
            engine = card.make()
            self._fleet.host(Guest(card.identity, engine))
            return engine

        self._call = call = EngineStart(make, None)
        self._card = number
        try:
            return await asyncio.wrap_future(self._fleet.launch(lambda: self._measured(card, call)))
        except asyncio.CancelledError:
            call.call_off()  # whoever asked is gone
            raise
        except EngineError:
            self._refuse(number)  # it was called off for that
            raise
        finally:
            self._call = self._card = None

    def follow(self) -> None:
        """Ends the measurement where a ruling has come that forbids it; after each ruling."""
        if self._card is not None and self._forbidding(self._card) is not None:
            self.call_off()

    def call_off(self) -> None:
        """The agent ends: so does the measurement."""
        if self._call is not None:
            self._call.call_off()

    def _forbidding(self, number: int) -> CardRuling | None:
        """The ruling of a card with only the reasons that forbid measuring it; None if none do."""
        ruling = self._ruling(number)
        if ruling is None:
            return None
        found = tuple(
            reason for reason in ruling.reasons
            if not FORBIDDING.isdisjoint((reason.code, dict(reason.fields).get("cause")))
        )  # fmt: skip
        return replace(ruling, reasons=found) if found else None

    def _refuse(self, number: int) -> None:
        ruling = self._forbidding(number)
        if ruling is not None:
            why = words.reasons(reason_items(ruling))
            raise AgentError("trial_forbidden", card=number, why=why)

    def _measured(self, card: Card, call: EngineStart) -> Shown:
        """On the launcher's lane, since an engine ends with the thread that started it."""
        if card.lock is not None:  # it began to lend while we waited for the lane
            raise AgentError("trial_busy")
        lock = card.take()
        try:
            started = call()
            started.engine.close()
        finally:
            self._fleet.host(None)
            lock.release()
        return Shown(started.rates, started.ready.level, is_fresh=True)
