"""Words for codes: units, unknown codes, whole sentences."""

from __future__ import annotations

import pytest

from app.control.messages import CardItem, ReasonItem
from app.control.words import LINES, card_sentence, line, reason, reasons
from app.policy.intent import Intent, intent_verdict
from app.policy.rules import RULES
from app.policy.snapshot import CardFacts, Snapshot


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


def test_every_reason_of_the_policy_has_words() -> None:
    card = CardFacts(0, "cpu")
    codes = {rule(Snapshot(0.0, (card,)), card).reason.code for rule in RULES}
    for kind in ("pause", "finish", "stop"):
        for drained in (False, True):
            verdict = intent_verdict(Intent(kind, drained=drained), 0.0)  # type: ignore[arg-type]
            assert verdict is not None
            codes.add(verdict.reason.code)
    for code in codes:
        assert reason(ReasonItem(code)) != code.replace("_", " ")


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
