"""What is seen right now stands beside the settings that it concerns."""

from __future__ import annotations

import pytest

from app.control import words
from app.control.items import CardItem, Item, ProbeItem, ReasonItem, SensorItem
from app.ui.live import GROUPS, live_line
from app.ui.pages.settings import WHEN

NOW_S = 1_767_268_800.0


def items(*reasons: ReasonItem, health: str = "well", line: str = "") -> dict[str, Item]:
    card = CardItem(
        "card-0", 0, "cpu", "STOP", reasons, None, False, "absent", "stopped", "", "", 0, 0, 0, 0.0,
        sensors=(SensorItem("package", 48.2, 95.0),),
    )  # fmt: skip
    found: dict[str, Item] = {"card-0": card}
    for name in ("idle", "play", "power", "network", "cards"):
        found[f"probe-{name}"] = ProbeItem(f"probe-{name}", name, health, "x", line)  # type: ignore[arg-type] # one of the three words
    return found


def test_every_group_and_every_reason_is_known() -> None:
    assert set(GROUPS) == {title for title, _prefixes in WHEN}
    codes = [code for _probe, some in GROUPS.values() for code in some]
    assert len(codes) == len(set(codes))
    assert set(codes) <= set(words.REASONS)


def test_a_reason_stands_in_its_group_alone() -> None:
    seen = items(ReasonItem("game_runs", {"games": "Tiny Racer"}))
    lines = {group: live_line(group, seen, NOW_S) for group in GROUPS}
    assert lines["Games and other programs"] == (
        "Right now: a game runs (Tiny Racer) (until it ends)."
    )
    assert lines["Battery"] == "Right now nothing of this stops lending."
    assert not any("Racer" in text for group, text in lines.items() if "Games" not in group)


def test_what_has_only_just_ended_counts_in_the_group_of_its_cause() -> None:
    seen = items(ReasonItem("was_needed", {"cause": "game_runs", "games": "Tiny Racer"}))
    assert "only just ended" in live_line("Games and other programs", seen, NOW_S)
    assert "ended" not in live_line("Idle", seen, NOW_S)


def test_temperatures_are_live() -> None:
    assert live_line("Heat", items(), NOW_S).startswith("Card 0: package 48 °C\n")


@pytest.mark.parametrize("group", ["Idle", "Network"])
def test_what_is_not_known_is_said(group: str) -> None:
    seen = items(health="unknown", line="no source tells.")
    assert live_line(group, seen, NOW_S) == "Right now this is not known: no source tells."


def test_without_an_agent_nothing_is_claimed() -> None:
    assert [live_line(group, {}, NOW_S) for group in (*GROUPS, "Costs")] == [""] * 7
    assert live_line("Costs", items(), NOW_S) == ""
