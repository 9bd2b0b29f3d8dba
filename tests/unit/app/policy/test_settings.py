"""The declarations: sentences, bounds, and refusals that say why."""

from __future__ import annotations

import pytest

from app.policy.settings import POLICY, PRICES
from gpugoblin.errors import SettingsError
from gpugoblin.settings import check


def test_every_setting_is_live_and_has_sentences() -> None:
    for setting in (*POLICY, *PRICES):
        assert setting.is_live
        assert setting.description.endswith(".")
        assert setting.kind not in ("int", "float") or setting.maximum is not None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("profile", "sometimes", "one of away"),
        ("away.after_minutes", 0, "at least 1"),
        ("hours.spans", ["mon 8-9"], "write it like"),
        ("heat.card_stop_c", 400, "at most 120"),
        ("cards.own", ["1 heat.card_stop_c = 400"], "at most 120"),
        ("cards.own", ["1 heat.card_stop = 40"], "no setting"),
        ("cards.own", ['1 profile = "away"'], "for all cards"),
        ("cards.own", ["heat.card_stop_c"], "write it like"),
    ],
)
def test_refusals(name: str, value: object, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check({name: value}, POLICY, "a file")


def test_a_currency_is_a_word() -> None:
    assert check({"price.currency": "SEK"}, PRICES, "x")["price.currency"] == "SEK"
    with pytest.raises(SettingsError, match="short word"):
        check({"price.currency": "E U R"}, PRICES, "x")
