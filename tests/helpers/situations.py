"""Situations for the policy's tests: a machine on which everything allows lending, and changes."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from app.policy.choices import Choices
from app.policy.combine import CardRuling, decide
from app.policy.intent import Intent
from app.policy.rule import Held, Rule, Situation, Verdict
from app.policy.rules import RULES
from app.policy.settings import POLICY
from app.policy.snapshot import (
    CardFacts,
    IdleFacts,
    LoadFacts,
    NetworkFacts,
    PlayFacts,
    PowerFacts,
    Sensor,
    Snapshot,
)
from gpugoblin.settings import check
from gpugoblin.units import GIB

NOW_S = 1_767_268_800.0  # Thursday 2026-01-01 12:00 UTC
CPU = CardFacts(0, "cpu", "cpu", sensors=(Sensor("package", "processor", 50.0),))
GPU = CardFacts(
    1, "cuda", "GPU-1", sensors=(Sensor("core", "core", 60.0),), memory_bytes=12 * GIB,
    memory_used_bytes=0, power_w=100.0,
)  # fmt: skip
FREE = Snapshot(
    NOW_S,
    (CPU, GPU),
    NOW_S,
    idle=IdleFacts(NOW_S - 7200.0, "test"),
    play=PlayFacts(),
    power=PowerFacts(),
    network=NetworkFacts("no", "wired"),
    load=LoadFacts(3.0, 16 * GIB, 100 * GIB),
)


def choices(**values: Any) -> Choices:
    """The defaults with other values; `__` in a name is its dot."""
    given = {name.replace("__", "."): value for name, value in values.items()}
    return Choices(check(given, POLICY, "a test"))


def facts(**changes: Any) -> Snapshot:
    """The free machine with other facts."""
    return replace(FREE, **changes)


def judge(
    rule: Rule,
    snapshot: Snapshot = FREE,
    card: CardFacts = CPU,
    held: Held | None = None,
    **values: Any,
) -> Verdict | None:
    """What one rule says."""
    return rule.judge(Situation(snapshot, card, choices(**values).of(card), held))


def code(verdict: Verdict | None) -> str:
    """The code of a verdict; empty for none."""
    return "" if verdict is None else verdict.reason.code


def rulings(
    snapshot: Snapshot, intents: dict[int, Intent] | None = None, **values: Any
) -> tuple[CardRuling, ...]:
    """What all rules say together, without a past."""
    return decide(snapshot, RULES, intents or {}, choices(**values), MappingProxyType({}))[0]
