"""Every code that the agent can say has words, and the words have all their fields."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import app.agent
from app.agent.speech import Speech
from app.control import words
from app.policy.combine import CardRuling
from app.policy.rule import Reason, Ruling
from gpugoblin.clock import SystemClock
from gpugoblin.errors import AgentError


def said_codes() -> set[str]:
    """The first arguments of every `say(...)` in the agent's source."""
    found: set[str] = set()
    for path in Path(app.agent.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "say":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    found.add(first.value)
                elif isinstance(first, ast.IfExp):
                    found.add(first.body.value)  # type: ignore[attr-defined]
    return found


def test_all_codes_have_words() -> None:
    codes = said_codes()
    assert len(codes) > 20
    assert codes <= set(words.LINES)


def test_a_cause_is_told_in_the_words_of_its_last_error() -> None:
    lines: list[str] = []
    speech = Speech(lines.append, SystemClock())
    speech.say("coordinator_away", code="peer_away")
    speech.explain(AgentError("peer_away", peer="coordinator", address="x", reason="no route"))
    speech.say("coordinator_away", code="peer_away")
    assert lines[0].endswith("peer away")
    assert "no route" in lines[1]
    assert lines[1].endswith("check the network if it stays so.")


@pytest.mark.parametrize("ruling", Ruling)
def test_rulings_have_lines_with_all_reasons(ruling: Ruling) -> None:
    lines: list[str] = []
    speech = Speech(lines.append, SystemClock())
    reasons = (Reason("owner_paused"), Reason("some_new_rule"))
    speech.say_ruling(CardRuling(3, ruling, reasons, until_s=0.0))
    assert "Card 3" in lines[0]
    assert "because you paused it and some new rule" in lines[0]
