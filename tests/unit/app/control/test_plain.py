"""Status without a terminal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.control.items import CardItem, Item, TotalsItem
from app.control.plain import lost_line, status_lines
from app.control.texts import speak
from tests.helpers.recordings import BEGIN_S, troubles


def test_what_is_wrong_is_said() -> None:
    items: dict[str, Item] = {item.key: item for item in troubles().steps[0].changed}
    lines = list(status_lines(items, BEGIN_S))
    text = "\n".join(lines)
    assert "not enrolled" in text
    assert "Approve the code ABCD-2345" in text
    assert "Card 0 (cpu): not lending, because it is not known" in text
    assert "Not known: idle" in text
    assert lines[-1].startswith("Since the start: 0 results sent")


def test_what_a_card_may_draw_is_said_where_the_owner_says_so() -> None:
    items: dict[str, Item] = {item.key: item for item in troubles().steps[0].changed}
    line = "Card 1 draws at most 210 W by your settings."
    assert line not in status_lines(items, BEGIN_S)
    card = items["card-1"]
    assert isinstance(card, CardItem)
    assert line in status_lines({**items, "card-1": replace(card, cap_w=210)}, BEGIN_S)


@pytest.mark.parametrize(
    ("computed_s", "lost_s", "line"),
    [
        (0.0, 0.0, ""),
        (3590.0, 10.0, "Computed 1 h 0 min; pauses threw 0.3 % of it away"),
        (0.0, 2.0, "Computed 2 s; pauses threw 100.0 % of it away"),
    ],
)
def test_what_pauses_cost_is_said(computed_s: float, lost_s: float, line: str) -> None:
    totals = TotalsItem("totals", 1, 0, 0, 0, 0, computed_s=computed_s, lost_s=lost_s)
    assert lost_line(totals) == line
    assert (line in status_lines({"totals": totals}, BEGIN_S)) is bool(line)


def test_it_speaks_the_readers_language() -> None:
    items: dict[str, Item] = {item.key: item for item in troubles().steps[0].changed}
    english = list(status_lines(items, BEGIN_S))
    speak("de")
    try:
        german = list(status_lines(items, BEGIN_S))
    finally:
        speak("en")
    alike = [line for line in german if line in english]
    assert alike == []
