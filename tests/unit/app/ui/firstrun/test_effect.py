"""What a choice would mean right now, in a sentence."""

from __future__ import annotations

from app.control.messages import ReasonItem, WouldItem
from app.ui.firstrun.effect import effect

USED = ReasonItem("in_use", {"source": "test"})
PLAYED = ReasonItem("game_runs", {"games": "Racer"})


def would(card: int, ruling: str, *reasons: ReasonItem) -> WouldItem:
    return WouldItem(card, ruling, reasons, None)  # type: ignore[arg-type]


def test_what_would_be_lent_is_named() -> None:
    line = effect([would(0, "RUN"), would(1, "STOP", USED), would(2, "THROTTLE")], {})
    assert line == "Right now this would lend: 0, 2 (slowly)."


def test_the_causes_are_said_once() -> None:
    line = effect([would(0, "STOP", USED), would(1, "STOP", USED), would(2, "STOP", PLAYED)], {})
    assert line.startswith("Right now this would lend nothing: the machine is in use (test)")
    assert line.count("in use") == 1
    assert "Racer" in line


def test_no_card() -> None:
    assert "no card" in effect([], {})
