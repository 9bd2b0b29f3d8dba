"""The owner's words reach the agent with the right moment and cards."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest

from app.control.messages import CardItem, Finish, Pause, Resume, Stop
from app.ui.actions import HOUR_S, MORNING_HOUR, tomorrow_s
from app.ui.pages.page import Context
from tests.helpers.served_agent import ServedAgent

Until = Callable[[Callable[[], bool]], None]


def last(served: ServedAgent, until: Until, kind: type[object]) -> object:
    until(lambda: isinstance(served.asked[-1], kind))
    return served.asked[-1]


@pytest.mark.parametrize("cards", [(), (1,)])
def test_pauses(
    context: Context, served: ServedAgent, until: Until, cards: tuple[int, ...]
) -> None:
    act = context.actions
    act.pause(*cards)
    found = last(served, until, Pause)
    assert isinstance(found, Pause)
    assert (found.cards, found.until_s) == (cards, None)
    before_s = time.time()
    act.pause_hour(*cards)
    until(lambda: isinstance(served.asked[-1], Pause) and served.asked[-1] is not found)
    hour = served.asked[-1]
    assert isinstance(hour, Pause)
    assert hour.until_s is not None
    assert HOUR_S <= hour.until_s - before_s <= HOUR_S + 60
    assert hour.intent != found.intent


def test_finish_stop_and_resume(context: Context, served: ServedAgent, until: Until) -> None:
    for act, kind in (
        (context.actions.finish, Finish),
        (context.actions.stop, Stop),
        (context.actions.resume, Resume),
    ):
        act()
        assert isinstance(last(served, until, kind), kind)


def test_a_pause_is_seen_in_the_items(context: Context, until: Until) -> None:
    context.actions.pause(1)

    def stopped() -> bool:
        card = context.link.items["card-1"]
        return isinstance(card, CardItem) and card.reasons[0].code == "owner_paused"

    until(stopped)


def test_a_refusal_is_told(context: Context, told: list[str], until: Until) -> None:
    context.actions.pause(63)
    until(lambda: bool(told))
    assert "63" in told[0]


@pytest.mark.parametrize("hour", [0, 7, 8, 23])
def test_tomorrow_is_the_next_days_morning(hour: int) -> None:
    now = datetime(2026, 12, 1, hour, 30)
    found = datetime.fromtimestamp(tomorrow_s(now.timestamp()))
    assert found == datetime(2026, 12, 2, MORNING_HOUR)
