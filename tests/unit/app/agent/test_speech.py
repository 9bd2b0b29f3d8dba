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


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def wall_s(self) -> float:
        return self._now_s

    def monotonic_s(self) -> float:
        return self._now_s

    def advance(self, duration_s: float) -> None:
        self._now_s += duration_s


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


def test_results_take_one_line_a_minute() -> None:
    lines: list[str] = []
    clock = ManualClock()
    speech = Speech(lines.append, clock)
    assert speech.next_s() is None
    start_s = clock.monotonic_s()
    speech.say("result_sent")
    assert speech.next_s() == start_s + 60.0
    for _ in range(99):
        speech.say("result_sent")
    speech.say("result_late")
    speech.sum_up()
    assert [line[10:] for line in lines] == [
        "A result was sent; the lab checks it. From now on one line a minute."
    ]
    clock.advance(60.0)
    speech.sum_up()
    assert lines[1].endswith("In the last 1 min 0 s: 99 results sent, 1 sent too late to be used.")
    clock.advance(30.0)
    speech.say("result_cancelled")
    speech.sum_up(is_last=True)
    assert lines[2].endswith("In the last 30 s: 1 sent whose job had been cancelled.")


def test_after_a_quiet_minute_the_next_result_is_told_at_once() -> None:
    lines: list[str] = []
    clock = ManualClock()
    speech = Speech(lines.append, clock)
    speech.say("result_sent")
    clock.advance(61.0)
    speech.sum_up()
    assert (speech.next_s(), len(lines)) == (None, 1)
    speech.sum_up(is_last=True)
    speech.say("result_sent")
    assert len(lines) == 2


@pytest.mark.parametrize("ruling", Ruling)
def test_rulings_have_lines_with_all_reasons(ruling: Ruling) -> None:
    lines: list[str] = []
    speech = Speech(lines.append, SystemClock())
    reasons = (Reason("owner_paused"), Reason("some_new_rule"))
    speech.say_ruling(CardRuling(3, ruling, reasons, until_s=0.0))
    assert "Card 3" in lines[0]
    assert "because you paused it and some new rule" in lines[0]
