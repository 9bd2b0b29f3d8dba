"""Words for codes: units, unknown codes, whole sentences."""

from __future__ import annotations

import time

import pytest

from app.control.messages import CardItem, ReasonItem
from app.control.words import LINES, REASONS, card_sentence, ends, line, reason, reasons, when, why
from app.policy.reasons import REASONS as DECLARED


def test_seconds_and_bytes_are_written_with_their_units() -> None:
    assert "1 min 30 s" in line("grant_taken", {"card": 0, "remaining_s": 90})
    assert "3 MiB" in line("cache_discarded", {"bytes": 3 * 1024 * 1024})


def test_why_a_task_goes_back() -> None:
    assert line("lease_given_back", {"reason": "owner"}).endswith("because you want the card.")
    with pytest.raises(LookupError):
        line("lease_given_back", {"reason": "whim"})


def test_an_undeclared_code_or_a_missing_field_is_a_defect() -> None:
    with pytest.raises(LookupError):
        line("nothing_like_that", {})
    with pytest.raises(LookupError):
        line("engine_ready", {"card": 0})


def test_an_unknown_reason_is_shown_as_it_is() -> None:
    assert reason(ReasonItem("game_running")) == "game running"
    assert reasons(()) == ""


def test_every_reason_of_the_policy_has_words_that_name_all_its_fields() -> None:
    assert set(REASONS) == set(DECLARED)
    for code, names in DECLARED.items():
        fields = {name: 1000.0 if name.endswith("_s") else 2.0 for name in names}
        fields |= {"cause": "on_battery"} if code == "was_needed" else {}  # type: ignore[dict-item]
        words = reason(ReasonItem(code, fields))  # type: ignore[arg-type]
        assert words != code.replace("_", " ")
        assert "{" not in words
        if code != "never_used":
            assert len(words) > 10


def test_a_reason_of_another_version_is_shown_as_it_is() -> None:
    assert reason(ReasonItem("hot", {"sensor": "core"})) == "hot"


def test_moments_as_people_say_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    noon = 1_767_268_800.0
    assert when(noon + 90, noon) == "12:01:30"
    assert when(noon + 8 * 3600, noon) == "20:00"
    assert when(noon + 20 * 3600, noon) == "tomorrow 08:00"
    assert when(noon + 3 * 86_400, noon) == "Sun 12:00"
    assert when(noon + 30 * 86_400, noon) == "2026-01-31 12:00"


def test_ends() -> None:
    assert ends(ReasonItem("game_runs"), 0.0) == "until it ends"
    assert ends(ReasonItem("play_unknown"), 0.0) == "until that is known"
    assert ends(ReasonItem("away"), 0.0) == ""


def test_why_is_one_line_with_every_cause() -> None:
    stopped = card(
        ruling="STOP", doing="stopped", until_s=None,
        reasons=(ReasonItem("on_battery"), ReasonItem("game_runs", {"games": "G"})),
    )  # fmt: skip
    assert why(stopped, 0.0) == (
        "Card 0: not lending, because the machine runs on battery (until it is plugged in)"
        " and a game runs (G) (until it ends)."
    )
    refused = card(doing="refused", why="bwrap_missing", fix="Install bubblewrap.")
    assert why(refused, 0.0) == "Card 0: not lending: bwrap missing. Install bubblewrap."


def card(**fields: object) -> CardItem:
    values: dict[str, object] = {
        "key": "card-0", "card": 0, "kind": "cpu", "ruling": "RUN",
        "reasons": (ReasonItem("lending"),), "until_s": None, "is_draining": False,
        "engine": "ready", "doing": "computing", "sandbox_level": "full", "lab": "", "queued": 1,
        "done": 0, "failures": 0, "flops_per_s": 0.0,
    }  # fmt: skip
    return CardItem(**{**values, **fields})  # type: ignore[arg-type]


def test_one_sentence_for_a_card() -> None:
    assert card_sentence(card(), 0.0) == "computing, because nothing forbids it"
    refused = card(doing="refused", why="bwrap_missing", fix="Install bubblewrap.")
    assert card_sentence(refused, 0.0) == "not lending: bwrap missing. Install bubblewrap."
    paused = card(doing="stopped", reasons=(ReasonItem("owner_paused"),), until_s=0.0)
    assert card_sentence(paused, 0.0).startswith("not lending, because you paused it, until ")


@pytest.mark.parametrize(
    ("asks", "asks_at_s", "words"),
    [
        ("lab", 112.2, "waiting for work, asks its lab again in 12 s"),
        ("coordinator", 175.0, "waiting for work, asks the coordinator again in 1 min 15 s"),
        ("lab", 100.6, "waiting for work, asks its lab again in 1 s"),
        ("coordinator", 99.0, "waiting for work, asks the coordinator now"),
        ("", None, "waiting for work"),
    ],
)
def test_a_card_without_work_says_when_it_asks_next(
    asks: str, asks_at_s: float | None, words: str
) -> None:
    assert card_sentence(card(doing="waiting", asks=asks, asks_at_s=asks_at_s), 100.0) == words


def test_lines_are_sentences() -> None:
    assert all(text[0].isupper() or text[0] == "{" for text in LINES.values())
