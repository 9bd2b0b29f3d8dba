"""The start of one engine: made, awaited, measured; it can be called off from another thread.

Owns: one blocking call for the launcher's lane. Must not: leave an engine behind when it fails or
is called off; know what the engine is for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from app.agent.calibration import Rates, calibrate
from app.agent.own_task import await_ready
from app.host.engine import Engine
from app.host.spec import Ready
from gpugoblin.errors import EngineError

__all__ = ["EngineStart", "Proof", "Started", "no_proof", "no_warm_up"]


Proof = Callable[[Engine, Callable[[], None]], None]
"""Asks a ready engine for what it must show, and raises GoblinError where it does not; blocks. Its
second argument is to be called many times a second, and what that raises goes on."""


def no_proof(engine: Engine, look: Callable[[], None]) -> None:
    """Takes an engine as it is."""


def no_warm_up(look: Callable[[], None]) -> None:
    """Starts cold."""


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that is ready, and its rates."""

    engine: Engine
    ready: Ready
    rates: Rates


class EngineStart:
    """One start. Call it on the launcher's lane, once; `call_off` from anywhere.

    Args:
        make: starts the process; blocks, and cannot be interrupted.
        rates: what an earlier start has measured.
        proof: what the engine must show before it is measured.
        warm: done before it is made; given what is to be called many times a second.
    """

    def __init__(
        self,
        make: Callable[[], Engine],
        rates: Rates | None,
        proof: Proof = no_proof,
        warm: Callable[[Callable[[], None]], None] = no_warm_up,
    ) -> None:
        self._make = make
        self._warm = warm
        self._proof = proof
        self._rates = rates
        self._is_called_off = threading.Event()
        self.engine: Engine | None = None
        """What was made, while it starts and after. From any thread."""

    def call_off(self) -> None:
        """The engine is not wanted any more: the call ends soon, and its engine with it."""
        self._is_called_off.set()

    def __call__(self) -> Started:
        """Makes the engine, waits until it is ready, proves it, measures it the first time.

        Raises:
            EngineError: `engine_stopped` when it was called off; why it died or could not start;
                `card_lied`, `card_broken`.
            SandboxError: a wall that cannot be had.
            AgentError: the card is taken.
        """
        self._look()
        self._warm(self._look)
        self._look()
        engine = self._make()
        self.engine = engine
        try:
            ready = await_ready(engine, self._look)
            self._proof(engine, self._look)
            rates = self._rates or calibrate(engine, self._look)
            self._look()
        except BaseException:
            engine.close()
            self.engine = None
            raise
        return Started(engine, ready, rates)

    def _look(self) -> None:
        if self._is_called_off.is_set():
            raise EngineError("engine_stopped", doing="starting")
