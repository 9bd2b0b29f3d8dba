"""What a card does right now, measured for its owner: a short product in a walled engine.

Owns: one measurement on the launcher's lane, at the owner's word and whatever the rules say: it
takes a second. Must not: disturb a card that lends; what its engine has shown is told instead.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.agent.calibration import Rates
from app.agent.engine_start import EngineStart
from app.agent.fleet import Card, Fleet, Guest
from app.host.engine import Engine
from gpugoblin.errors import AgentError

__all__ = ["Shown", "Trial"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a card has shown. `is_fresh`: measured for this question."""

    rates: Rates
    level: str
    is_fresh: bool


class Trial:
    """Measures the cards of a fleet, one at a time. Belongs to the loop's thread."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._call: EngineStart | None = None

    async def __call__(self, number: int) -> Shown:
        """Measures a card.

        Raises:
            AgentError: `card_unknown`, `card_taken`, `trial_busy`.
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

        def make() -> Engine:
            engine = card.make()
            self._fleet.host(Guest(card.identity, engine))
            return engine

        self._call = call = EngineStart(make, None)
        try:
            return await asyncio.wrap_future(self._fleet.launch(lambda: self._measured(card, call)))
        finally:
            self._call = None

    def call_off(self) -> None:
        """The agent ends: so does the measurement."""
        if self._call is not None:
            self._call.call_off()

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
