"""What is said of an agent, for every step of every recording and for the ends of the scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from app.control.board import follow
from app.control.fake_agent import load
from app.control.messages import (
    AgentItem,
    CardItem,
    Delta,
    GrantItem,
    Item,
    MachineItem,
    NoticeItem,
    ReasonItem,
    TotalsItem,
)
from app.ui.facts import (
    card_view,
    cards_of,
    labs_of,
    machine_line,
    notice_line,
    overview,
    totals_line,
)
from tests.helpers.served_agent import RECORDINGS

NOW_S = 1_767_268_800.0


def agent(**changed: Any) -> AgentItem:
    given: dict[str, Any] = {
        "key": "agent", "build": "b", "pid": 1, "since_s": NOW_S, "coordinator": "https://c",
        "state": "working",
    }  # fmt: skip
    return AgentItem(**{**given, **changed})


def card(number: int = 0, **changed: Any) -> CardItem:
    given: dict[str, Any] = {
        "key": f"card-{number}", "card": number, "kind": "vulkan", "ruling": "RUN",
        "reasons": (ReasonItem("never_used", {"source": "terminals"}),), "until_s": None,
        "is_draining": False, "engine": "ready", "doing": "computing", "sandbox_level": "full",
        "lab": "lab_a", "queued": 1, "done": 3, "failures": 0, "flops_per_s": 1e12,
    }  # fmt: skip
    return CardItem(**{**given, **changed})


def shown(*items: Item) -> dict[str, Item]:
    return {item.key: item for item in items}


def test_every_step_of_every_recording_can_be_said() -> None:
    seen = set()
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        recording = load(path)
        items: dict[str, Item] = {}
        for step in recording.steps:
            items = follow(items, Delta(0, step.changed, step.removed))
            view = overview(items, NOW_S)
            seen.add(view.state)
            assert view.title
            assert view.line
            for one in cards_of(items):
                assert card_view(one, NOW_S).why
    assert {"computing", "resting", "trouble"} <= seen


@pytest.mark.parametrize(
    ("items", "state"),
    [
        ({}, "away"),
        (shown(agent(state="not_enrolled", user_code="ABCD")), "setup"),
        (shown(agent(settings_fault="line 3: what?")), "trouble"),
        (shown(agent()), "resting"),
        (shown(agent(), card()), "computing"),
        (shown(agent(), card(doing="waiting")), "ready"),
        (shown(agent(), card(doing="resting")), "trouble"),
        (
            shown(agent(), card(ruling="STOP", doing="stopped", reasons=(ReasonItem("hot", {}),))),
            "resting",
        ),
        (
            shown(
                agent(), card(ruling="STOP", doing="stopped", reasons=(ReasonItem("owner_paused"),))
            ),
            "paused",
        ),
    ],
)
def test_the_state_of_the_whole(items: dict[str, Item], state: str) -> None:
    assert overview(items, NOW_S).state == state


def test_an_agent_that_is_away_says_why() -> None:
    view = overview({}, NOW_S, "No agent listens at x.")
    assert (view.state, view.line) == ("away", "No agent listens at x.")


def test_the_coordinators_absence_is_not_hidden() -> None:
    items = shown(agent(state="coordinator_away"), card(doing="waiting"))
    assert "coordinator" in overview(items, NOW_S).title


def test_cards_are_in_the_order_of_their_numbers() -> None:
    items = shown(card(10), card(2), card(1))
    assert [one.card for one in cards_of(items)] == [1, 2, 10]


def test_a_card_shows_what_is_known_and_no_more() -> None:
    view = card_view(card(memory_bytes=4 * 2**30, memory_used_bytes=2**30, power_w=40.0), NOW_S)
    assert dict(view.facts)["memory"] == "1 GiB / 4 GiB"
    assert view.load == 0.25
    assert "temperature" not in dict(view.facts)
    assert dict(view.facts)["power"] == "40 W"
    capped = card_view(card(power_w=40.0, cap_w=200), NOW_S)
    assert dict(capped.facts)["power"] == "40 / 200 W"
    assert card_view(card(flops_per_s=0.0), NOW_S).facts == ()


def test_slow_and_draining_cards_say_so() -> None:
    assert "30 %" in card_view(card(ruling="THROTTLE", duty_percent=30), NOW_S).title
    assert "last" in card_view(card(is_draining=True), NOW_S).title


def test_totals_are_said_when_there_are_some() -> None:
    totals = TotalsItem("totals", 0, 0, 0, 0, 0)
    assert totals_line(shown(totals)) == ""
    done = msgspec.structs.replace(totals, results_sent=3, bytes_sent=2**20, energy_wh=1.26)
    assert totals_line(shown(done)) == (
        "3 results sent since the start, 0 B received, 1 MiB sent; today 1.3 Wh."
    )
    paused = msgspec.structs.replace(done, computed_s=99.5, lost_s=0.5)
    assert totals_line(shown(paused)).endswith(
        "; today 1.3 Wh. Computed 1 min 40 s; pauses threw 0.5 % of it away."
    )


def test_a_notice_of_another_version_is_shown_as_its_code() -> None:
    assert notice_line(NoticeItem("n", NOW_S, "card_flies", {})) == "card flies"
    assert notice_line(NoticeItem("n", NOW_S, "enrolled", {})) == "This device is enrolled."


def test_views_can_be_compared() -> None:
    view = card_view(card(), NOW_S)
    assert replace(view, why="x") != view


def test_without_a_coordinator_nobody_is_sent_to_approve_a_code() -> None:
    line = overview(shown(agent(state="not_enrolled", coordinator="")), NOW_S).line
    assert line == "No coordinator is named yet."


def test_machines_of_an_account() -> None:
    ended = MachineItem("0123-4567-89ab-cdef", True, 5.0, None, True, 0, 0.0)
    assert machine_line(ended, NOW_S) == (
        "0123-4567-89ab-cdef (this one): taken off the account. Cards at work: 0. Credits: 0.0."
    )
    never = msgspec.structs.replace(ended, is_this=False, is_revoked=False)
    assert "cdef: never in touch." in machine_line(never, NOW_S)


def test_the_name_of_a_lab_is_its_id_where_it_has_none() -> None:
    grants: dict[str, Item] = {
        "a": GrantItem("a", "lab_a", 0, 1.0), "b": GrantItem("b", "lab_b", 0, 1.0),
        "c": GrantItem("c", "lab_a", 1, 1.0, "Tides", "Water."),
    }  # fmt: skip
    assert labs_of(grants) == {"lab_a": ("Tides", "Water."), "lab_b": ("lab_b", "")}
