"""The list of rules: each has a sentence and its own name, and says only declared codes."""

from __future__ import annotations

import ast
from pathlib import Path

import app.policy
from app.policy.reasons import REASONS
from app.policy.rules import RULES
from app.policy.settings import POLICY


def test_every_rule_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.sentence.endswith(".") for rule in RULES)


def test_settling_is_a_setting() -> None:
    names = {setting.name for setting in POLICY}
    assert {rule.settle for rule in RULES if rule.settle} <= names


def said() -> set[str]:
    """The literal codes of all `Reason(...)` in the policy's source."""
    found: set[str] = set()
    for path in Path(app.policy.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            is_reason = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Reason"
            if is_reason and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                found.add(node.args[0].value)  # type: ignore[attr-defined]
    return found


def test_every_code_is_declared_and_every_declared_code_is_said() -> None:
    facts = ("idle", "play", "foreign", "load", "sensors", "power", "network")
    owner = {"owner_paused", "owner_finished", "owner_stopped"}
    assert said() | {f"{fact}_unknown" for fact in facts} | owner == set(REASONS)
