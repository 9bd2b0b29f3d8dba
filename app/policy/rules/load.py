"""What others need of this machine: processor, memory, disk."""

from __future__ import annotations

from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from gpugoblin.units import MIB

__all__ = ["LOAD", "ROOM"]

EASE: Final = 0.8
"""While the processor waits, others must use less than this part of the limit."""
ROOM_FACTOR: Final = 1.2
"""While there is too little room, so much more must be free."""


def _load(situation: Situation) -> Verdict | None:
    limit_percent = situation.choices.number("load.processor_percent")
    if situation.card.kind != "cpu" or limit_percent >= 100:
        return None
    load = situation.snapshot.load
    if load is None:
        return unknown(situation, "load")
    if load.processor_percent < limit_percent * (EASE if situation.held else 1.0):
        return None
    return Verdict(Ruling.FREEZE, Reason("processor_needed", (("limit_percent", limit_percent),)))


def _room(situation: Situation) -> Verdict | None:
    choices, load = situation.choices, situation.snapshot.load
    memory_bytes = choices.number("memory.least_free_mib") * MIB
    disk_bytes = choices.number("disk.least_free_mib") * MIB
    if not memory_bytes and not disk_bytes:
        return None
    if load is None:
        return unknown(situation, "load")
    factor = ROOM_FACTOR if situation.is_stopped else 1.0
    if load.memory_free_bytes < memory_bytes * factor:
        return Verdict(Ruling.STOP, Reason("memory_short", (("least_bytes", memory_bytes),)))
    if load.disk_free_bytes < disk_bytes * factor:
        return Verdict(Ruling.STOP, Reason("disk_short", (("least_bytes", disk_bytes),)))
    return None


LOAD: Final = Rule(
    "load",
    "While others use more than `load.processor_percent` of the processor, its engine is frozen,"
    " and ended after 30 seconds.",
    _load,
    settle="calm.after_s",
)
ROOM: Final = Rule(
    "room",
    "When memory or the disk of the cache runs short for others, nothing is lent.",
    _room,
    settle="calm.after_s",
)
