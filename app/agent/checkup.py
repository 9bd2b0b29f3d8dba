"""Known answers asked of a running engine between the tasks of labs.

Owns: when one is due, which, and its judgement. Must not: end an engine, or block.
"""

from __future__ import annotations

from typing import Final

from app.agent.answers import cases
from app.agent.proof import Asked, ask
from app.host.engine import Engine
from app.host.spec import Done, Failed, Refused
from gpugoblin.errors import EngineError

__all__ = ["EVERY", "Checkup"]

EVERY: Final = 200
"""Tasks between two questions. Each question is another case, so all come round."""


class Checkup:
    """Of one card, over all its engines. Belongs to the loop's thread."""

    def __init__(self, every: int = EVERY) -> None:
        self._every = every
        self._done = 0
        self._turn = 0
        self._asked: dict[int, Asked] = {}

    def __contains__(self, task: int) -> bool:
        return task in self._asked

    def count(self) -> None:
        """One more task of a lab is done."""
        self._done += 1

    def forget(self) -> None:
        """The engine is gone, with its arenas."""
        self._asked.clear()

    def ask_if_due(self, engine: Engine) -> None:
        """Queues a case behind what is queued. Where there is no room the next task asks again."""
        if self._done < self._every or not engine.free_places:
            return
        every = cases()
        try:
            asked = ask(engine, every[self._turn % len(every)])
        except EngineError:
            return
        try:
            self._asked[engine.submit(asked.task)] = asked
        except EngineError:
            asked.forget(engine)
            return
        self._done, self._turn = 0, self._turn + 1

    def judge(self, engine: Engine, event: Done | Refused | Failed) -> EngineError | None:
        """What is wrong with an answer to one of these questions; None where nothing is."""
        asked = self._asked.pop(event.task)
        wrong = asked.judge(engine, event)
        asked.forget(engine)
        return wrong
