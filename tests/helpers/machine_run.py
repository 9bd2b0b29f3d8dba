"""The agent's machine with a clock and a memory, and short names for what its tests say."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from app.agent.events import (
    CardFound,
    ContactReply,
    EngineDone,
    EngineReady,
    Enrolled,
    Event,
    ExchangeDone,
    GrantNews,
    LeaseInput,
    LeaseOffered,
    RulingChanged,
    UploadsAwaited,
)
from app.agent.instructions import (
    Exchange,
    Instruction,
    matches,
)
from app.agent.machine import Machine
from app.agent.model import Limits
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId

LAB, OTHER = LabId("lab_a"), LabId("lab_b")
G1, G2 = GrantId("grant_a"), GrantId("grant_b")
X, Y = BlobHash("aa" * 32), BlobHash("bb" * 32)


def lease(number: int) -> LeaseId:
    return LeaseId(f"lease_{'abcdefghijklmnop'[number]}")


L1, L2, L3, L4 = (lease(number) for number in range(4))

RUN = RulingChanged(card=0, ruling="RUN", is_draining=False)
PAUSE = RulingChanged(card=0, ruling="STOP", is_draining=False)
FINISH = RulingChanged(card=0, ruling="RUN", is_draining=True)


def news(grant: GrantId = G1, lab: LabId = LAB, remaining_s: float = 3600.0) -> GrantNews:
    return GrantNews(grant, lab, 0, remaining_s, 8)


def offer(
    name: LeaseId, *blobs: BlobHash, grant: GrantId = G1, remaining_s: float = 60.0
) -> LeaseOffered:
    inputs = tuple(LeaseInput(blob, 64) for blob in blobs)
    return LeaseOffered(
        grant=grant, lease=name, remaining_s=remaining_s, inputs=inputs, output_bytes=64
    )


class Run:
    """A machine, its clock, and everything it ever said."""

    def __init__(self, **limits: Any) -> None:
        self.machine = Machine(Limits(**limits))
        self.now_s = 1000.0
        self.said: list[Instruction] = []
        self.last: list[Instruction] = []

    def tell(self, *events: Event, after_s: float = 0.0) -> list[Instruction]:
        self.now_s += after_s
        self.last = self.machine.handle(self.now_s, *events)
        self.said += self.last
        return self.last

    def exchange(self) -> int:
        return next(each.exchange for each in reversed(self.said) if isinstance(each, Exchange))

    def answer(self, *events: Event, wait_s: float = 0.0, grant: GrantId = G1) -> list[Instruction]:
        done = ExchangeDone(grant=grant, exchange=self.exchange(), wait_s=wait_s)
        return self.tell(*events, done)

    def stage(self, name: LeaseId) -> str:
        return self.machine.model.leases[name].stage


def of(run: Run, kind: type[Struct], **partial: Any) -> bool:
    return sum(matches(each, kind, **partial) for each in run.last) == 1


def no(run: Run, kind: type[Struct], **partial: Any) -> bool:
    return not any(matches(each, kind, **partial) for each in run.last)


def started(**limits: Any) -> Run:
    """Enrolled, measured, contacted, with one grant, asking for leases."""
    run = Run(**limits)
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    run.tell(EngineReady(card=0))
    run.tell(ContactReply(grants=(news(),), revoked=(), next_contact_s=300.0))
    return run


def computing(*names: LeaseId, **limits: Any) -> Run:
    """As `started`, with leases whose inputs are there, submitted as far as the queue allows."""
    run = started(**limits)
    run.answer(*(offer(name) for name in names), wait_s=1000.0)
    return run


def uploading(**limits: Any) -> Run:
    run = computing(L1, **limits)
    run.tell(EngineDone(card=0, lease=L1))
    run.answer(UploadsAwaited(leases=(L1,)))
    return run
