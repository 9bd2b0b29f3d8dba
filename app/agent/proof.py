"""Whether an engine gives known answers: the proof before the first task, and now and then after.

Owns: handing the cases of `answers.py` to an engine and taking its results out. Must not: decide
what becomes of a card that lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.agent.answers import Case, wrong_element
from app.agent.own_task import LIMIT_S, go_on, run_own
from app.host.arena import Slot
from app.host.engine import Engine
from app.host.spec import Done, EngineTask, Failed, Refused
from gpugoblin.errors import EngineError

__all__ = ["Asked", "ask", "prove"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A case whose inputs lie in an engine's arena, and the places of its results."""

    case: Case
    task: EngineTask

    def forget(self, engine: Engine) -> None:
        """Frees its places."""
        for slot in self.task.inputs:
            engine.inputs.free(slot)
        for slot in self.task.outputs:
            engine.outputs.free(slot)

    def judge(self, engine: Engine, event: Done | Refused | Failed) -> EngineError | None:
        """What is wrong with the answer; None where nothing is.

        A refusal says that the engine does not serve the case, which is no lie. No more is it that
        it had no memory for it: somebody else has that.
        """
        driver = "" if engine.ready is None else engine.ready.driver
        if isinstance(event, Refused) and not _is_broken(event):
            return None
        if isinstance(event, Failed) and event.code == "out_of_memory":
            return None
        if not isinstance(event, Done):
            return EngineError(
                "card_broken", driver=driver, case=self.case.name, reason=event.error.what
            )
        for answer, slot in zip(self.case.answers, self.task.outputs, strict=True):
            place = wrong_element(answer, bytes(engine.outputs.view(slot)))
            if place is not None:
                return EngineError("card_lied", driver=driver, case=self.case.name, element=place)
        return None


def _is_broken(event: Refused) -> bool:
    """Did the driver fail while the task was compiled?"""
    return str(event.error.fields.get("reason", "")).endswith("card_failed")


def ask(engine: Engine, case: Case) -> Asked:
    """Puts a case into the arenas; whoever asks submits its task and forgets it in the end.

    Raises:
        EngineError: `arena_full`.
    """
    inputs: list[Slot] = []
    outputs: list[Slot] = []
    try:
        for data in case.inputs:
            inputs.append(engine.inputs.allocate(len(data)))
            with engine.inputs.view(inputs[-1]) as view:
                view[:] = data
        for answer in case.answers:
            outputs.append(engine.outputs.allocate(len(answer.data)))
    except EngineError:
        for slot in inputs:
            engine.inputs.free(slot)
        for slot in outputs:
            engine.outputs.free(slot)
        raise
    task = EngineTask(case.graph, tuple(inputs), tuple(outputs), LIMIT_S, case.numeric_class)
    return Asked(case, task)


def prove(engine: Engine, cases: Sequence[Case], look: Callable[[], None] = go_on) -> None:
    """Asks an engine that is ready and has nothing else to do. Blocks.

    Args:
        look: called many times a second; what it raises ends the proof.

    Raises:
        EngineError: `card_lied`, `card_broken`; the engine died meanwhile, and why.
    """
    for case in cases:
        asked = ask(engine, case)
        try:
            wrong = asked.judge(engine, run_own(engine, asked.task, look))
        finally:
            asked.forget(engine)
        if wrong is not None:
            raise wrong
