"""The agent in one word, and what its doctor knows without asking."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from app.agent.display import _word, own_findings
from app.agent.model import CardState, Limits, Model
from app.policy.snapshot import CardFacts, Snapshot
from app.probes.board import Report
from gpugoblin.errors import AgentError
from tests.helpers.situations import choices

REPORTS = {
    "play": Report("play", "well", "processes"),
    "network": Report("network", "absent", "kernel", "nothing here tells"),
    "idle": Report("idle", "unknown", "", "no source speaks"),
}


def agent(
    *,
    ending: bool = False,
    enrolled: bool = True,
    facts: tuple[CardFacts, ...] = (),
    settings: dict[str, Any] | None = None,
    **card: Any,
) -> Any:
    model = Model(Limits())
    model.cards[0] = CardState(0, "cpu", is_measured=True)
    stopping = threading.Event()
    if ending:
        stopping.set()
    engine = SimpleNamespace(refusal=None, level="full")
    for name, value in card.items():
        setattr(engine, name, value)
    return SimpleNamespace(
        machine=SimpleNamespace(model=model),
        stopping=stopping,
        joining=SimpleNamespace(is_enrolled=enrolled, user_code=""),
        network=SimpleNamespace(coordinator_peer=SimpleNamespace(address="https://c:1")),
        around=SimpleNamespace(
            board=SimpleNamespace(reports=REPORTS), snapshot=lambda: Snapshot(0.0, facts)
        ),
        owner=SimpleNamespace(choices=choices(**(settings or {}))),
        fleet=SimpleNamespace(cards={0: SimpleNamespace(number=0, engine=engine)}),
    )


def test_the_agent_in_one_word() -> None:
    assert _word(agent()) == "working"
    assert _word(agent(ending=True)) == "ending"
    assert _word(agent(enrolled=False)) == "not_enrolled"
    away = agent()
    away.machine.model.is_coordinator_away = True
    assert _word(away) == "coordinator_away"
    new = agent()
    new.machine.model.cards[0].is_measured = False
    assert _word(new) == "starting"


@pytest.mark.parametrize(
    ("made", "well"),
    [
        (agent(), {"enrolment": True, "sandbox": True}),
        (agent(enrolled=False, level=""), {"enrolment": False}),
        (
            agent(refusal=AgentError("card_taken", card="cpu", holder="x")),
            {"enrolment": True, "sandbox": False},
        ),
    ],
)
def test_what_it_knows_already(made: Any, well: dict[str, bool]) -> None:
    findings = own_findings(made)
    told = {finding.subject: finding.is_well for finding in findings}
    probes = {"probe_play": True, "probe_network": True, "probe_idle": False}
    assert told == {**well, **probes}
    assert all(finding.is_well or finding.next_step for finding in findings)
    assert "It is known whether a game runs (processes)." in [each.what for each in findings]


CPU = CardFacts(0, "cpu", "cpu")
LARGE = CardFacts(1, "cuda", "GPU-1", default_w=350.0)
SILENT = CardFacts(2, "vulkan", "0000:03:00.0")


def test_what_each_card_may_draw_is_told() -> None:
    def lines(**settings: Any) -> list[tuple[bool, str]]:
        found = own_findings(agent(facts=(CPU, LARGE, SILENT), settings=settings))
        return [(each.is_well, each.what) for each in found if each.subject == "card"]

    assert lines() == []
    assert lines(power__cap_percent=60) == [
        (True, "Card 1 draws at most 210 W by your settings."),
        (False, "Card 2 tells no default power limit, so a percent of it means nothing."),
    ]
    assert lines(power__cap_percent=60, cards__own=["2 power.cap_w = 120"]) == [
        (True, "Card 1 draws at most 210 W by your settings."),
        (True, "Card 2 draws at most 120 W by your settings."),
    ]


def test_without_a_coordinator_the_doctor_says_what_is_first() -> None:
    made = agent(enrolled=False)
    assert own_findings(made)[0].next_step == "Approve the code that is shown."
    made.network.coordinator_peer = None
    assert own_findings(made)[0].next_step == "Name a coordinator first."
