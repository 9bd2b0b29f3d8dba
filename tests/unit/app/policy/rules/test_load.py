"""What others need."""

from __future__ import annotations

from app.policy.rule import Held, Reason, Ruling, Verdict
from app.policy.rules.load import LOAD, ROOM
from app.policy.snapshot import LoadFacts, Snapshot
from gpugoblin.units import GIB, MIB
from tests.helpers.situations import GPU, code, facts, judge


def load(percent: float = 0.0, memory: int = 8 * GIB, disk: int = 8 * GIB) -> Snapshot:
    return facts(load=LoadFacts(percent, memory, disk))


def test_a_busy_processor_freezes_its_engine_alone() -> None:
    busy = judge(LOAD, load(50.0))
    assert busy is not None
    assert busy.ruling is Ruling.FREEZE
    assert judge(LOAD, load(49.0)) is None
    assert judge(LOAD, load(99.0), GPU) is None
    assert judge(LOAD, load(100.0), load__processor_percent=100) is None


def test_it_thaws_when_others_use_clearly_less() -> None:
    held = Held(Verdict(Ruling.FREEZE, Reason("processor_needed")), 0.0, 0.0)
    assert code(judge(LOAD, load(41.0), held=held)) == "processor_needed"
    assert judge(LOAD, load(39.0), held=held) is None


def test_room() -> None:
    assert judge(ROOM, load()) is None
    assert code(judge(ROOM, load(memory=1023 * MIB))) == "memory_short"
    assert code(judge(ROOM, load(disk=1023 * MIB))) == "disk_short"
    held = Held(Verdict(Ruling.STOP, Reason("memory_short")), 0.0, 0.0)
    assert code(judge(ROOM, load(memory=1100 * MIB), held=held)) == "memory_short"
    assert judge(ROOM, load(memory=0, disk=0), memory__least_free_mib=0,
                 disk__least_free_mib=0) is None  # fmt: skip


def test_unknown_stops() -> None:
    assert code(judge(LOAD, facts(load=None))) == "load_unknown"
    assert code(judge(ROOM, facts(load=None))) == "load_unknown"
