"""The proof of one card's fresh engines: every known answer once, later the first of them.

Owns: how much is asked, and what is remembered of it. Must not: end an engine.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from app.agent.answers import cases
from app.agent.card_record import CardRecord, CardRecords, record_key
from app.agent.proof import prove
from app.host.engine import Engine
from gpugoblin.clock import Clock, SystemClock
from gpugoblin.errors import EngineError

__all__ = ["LIES", "CardProof"]

LIES = frozenset({"card_lied", "card_broken"})
"""Codes that say that a card does not compute what it should."""


class CardProof:
    """A `Proof` for the engines of one card. Blocks: for the launcher's lane."""

    def __init__(self, identity: str, records: CardRecords, clock: Clock | None = None) -> None:
        self._identity = identity
        self._records = records
        self._clock = clock or SystemClock()
        self._key = ""

    def __call__(self, engine: Engine, look: Callable[[], None]) -> None:
        """Raises EngineError `card_lied`, `card_broken`; why the engine died; what `look` does."""
        if engine.ready is None:
            return
        self._key = record_key(engine.ready)
        known = self._records.known(self._identity, self._key)
        try:
            prove(engine, cases()[:1] if known.proven_s else cases(), look)
        except EngineError as error:
            if error.code in LIES:
                self.failed(error)
            raise
        if not known.proven_s:
            proven_s = self._clock.wall_s()
            self._records.change(
                self._identity,
                self._key,
                lambda record: msgspec.structs.replace(record, proven_s=proven_s, fault="", fix=""),
            )

    def failed(self, error: EngineError) -> None:
        """A wrong answer: the next engine is asked everything again."""

        def changed(record: CardRecord) -> CardRecord:
            return msgspec.structs.replace(
                record, proven_s=0.0, fault=error.what[:1000], fix=error.next_step[:1000]
            )

        self._records.change(self._identity, self._key, changed)
