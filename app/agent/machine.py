"""The agent's state machine: events in, instructions out. No clock, no network, no process.

Owns: what each event means. Must not: do I/O, read a clock, draw a random number. What can be done
next is found by `plan.py` after each batch of events, from the state alone, so no event can be
forgotten. The invariants of `model.py` are checked after every batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from app.agent import on_card, on_coordinator, on_lab, plan
from app.agent.events import (
    AskedToEnd,
    BlobFailed,
    BlobReady,
    CardFound,
    ContactFailed,
    ContactReply,
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    Enrolled,
    Event,
    ExchangeDone,
    ExchangeFailed,
    LabRefused,
    LeaseCancelled,
    LeaseOffered,
    LeaseRefused,
    LeaseUnusable,
    Recalled,
    RulingChanged,
    SubmitDeferred,
    TaskRefused,
    Tick,
    UploadDone,
    UploadFailed,
    UploadsAwaited,
)
from app.agent.instructions import Instruction
from app.agent.model import Limits, Model
from app.agent.transitions import Output
from gpugoblin.errors import AgentError

__all__ = ["Machine"]


class Machine:
    """One agent. `handle` is the only way in."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.model = Model(limits or Limits())

    def handle(self, now_s: float, *events: Event) -> list[Instruction]:
        """Applies events that came together, then says what to do.

        Args:
            now_s: monotonic; an earlier moment than the last one counts as the last one.

        Raises:
            AgentError: `machine_unsound`: a defect of this program; the caller must stop lending.
        """
        model = self.model
        model.now_s = max(model.now_s, now_s)
        output: Output = Output()
        for event in events:
            output.stimulus = event.stimulus
            _HANDLERS[type(event)](model, event, output)
        plan.extend(model, output)
        problem = next(model.problems(), None)
        if problem is not None:
            raise AgentError("machine_unsound", problem=problem)
        return output.instructions


def _asked_to_end(model: Model, event: AskedToEnd, output: Output) -> None:
    model.is_ending = True


def _tick(model: Model, event: Tick, output: Output) -> None:
    """Only the time has changed; the plan looks at it."""


_HANDLERS: Final[dict[type[Event], Callable[[Model, Any, Output], None]]] = {
    CardFound: on_card.card_found,
    Enrolled: on_coordinator.enrolled,
    Recalled: on_coordinator.recalled,
    ContactReply: on_coordinator.contact_reply,
    ContactFailed: on_coordinator.contact_failed,
    LeaseOffered: on_lab.lease_offered,
    LeaseUnusable: on_lab.lease_unusable,
    LeaseCancelled: on_lab.lease_cancelled,
    LeaseRefused: on_lab.lease_refused,
    UploadsAwaited: on_lab.uploads_awaited,
    ExchangeDone: on_lab.exchange_done,
    ExchangeFailed: on_lab.exchange_failed,
    BlobReady: on_lab.blob_ready,
    BlobFailed: on_lab.blob_failed,
    EngineReady: on_card.engine_ready,
    EngineRefused: on_card.engine_refused,
    EngineDone: on_card.engine_done,
    TaskRefused: on_card.task_refused,
    SubmitDeferred: on_card.submit_deferred,
    EngineDied: on_card.engine_died,
    EngineStopped: on_card.engine_stopped,
    UploadDone: on_lab.upload_done,
    UploadFailed: on_lab.upload_failed,
    RulingChanged: on_card.ruling_changed,
    LabRefused: on_coordinator.lab_refused,
    AskedToEnd: _asked_to_end,
    Tick: _tick,
}
