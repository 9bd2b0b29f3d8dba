"""A task of our own in an engine that has nothing else to do: handed in, awaited, answered.

Owns: that wait. Must not: know what the task is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from app.host.engine import Engine
from app.host.spec import Died, Done, EngineTask, Event, Failed, Ready, Refused

__all__ = ["LIMIT_S", "await_ready", "go_on", "heard", "run_own"]

LIMIT_S: Final = 20.0
"""What a task of our own is predicted to take: its driver may compile for seconds."""
LOOK_PERIOD_S: Final = 0.05


E = TypeVar("E", bound=Event)


def go_on() -> None:
    """Nobody interrupts."""


def run_own(
    engine: Engine, task: EngineTask, look: Callable[[], None] = go_on
) -> Done | Refused | Failed:
    """Blocks until the task has its answer.

    Args:
        look: called many times a second; what it raises ends the wait.

    Raises:
        EngineError, SandboxError: the engine died meanwhile, and why.
    """
    number = engine.submit(task)
    kinds: tuple[type[Done | Refused | Failed], ...] = (Done, Refused, Failed)
    while True:
        answer = heard(engine, kinds, look)
        if answer.task == number:
            return answer


def await_ready(engine: Engine, look: Callable[[], None] = go_on) -> Ready:
    """Blocks until a fresh engine is ready. Raises as `heard`."""
    while engine.ready is None:
        look()
        for event in engine.wait(LOOK_PERIOD_S):
            if isinstance(event, Died):
                raise event.error
    return engine.ready


def heard(engine: Engine, kinds: tuple[type[E], ...], look: Callable[[], None] = go_on) -> E:
    """Blocks until the engine says one of these.

    Raises:
        EngineError, SandboxError: the engine died meanwhile, and why.
    """
    while True:
        look()
        events = engine.wait(LOOK_PERIOD_S)
        for event in events:  # an end that comes with an answer is not to be overlooked
            if isinstance(event, Died):
                raise event.error
        for event in events:
            if isinstance(event, kinds):
                return event
