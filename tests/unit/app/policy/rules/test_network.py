"""Networks that cost, and shares of data."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from app.policy.rules.network import NETWORK
from app.policy.snapshot import NetworkFacts
from gpugoblin.units import MIB
from tests.helpers.situations import NOW_S, code, facts, judge


@pytest.mark.parametrize(
    ("metered", "expected"),
    [("no", ""), ("guess_no", ""), ("untold", ""), ("yes", "metered"), ("guess_yes", "metered")],
)
def test_metered(metered: str, expected: str) -> None:
    network = facts(network=NetworkFacts(metered))  # type: ignore[arg-type]
    assert code(judge(NETWORK, network)) == expected
    assert judge(NETWORK, network, network__metered_stops=False) is None


def test_unknown_and_radio() -> None:
    assert code(judge(NETWORK, facts(network=None))) == "network_unknown"
    radio = facts(network=NetworkFacts("no", "wireless"))
    assert code(judge(NETWORK, radio, network__wired_only=True)) == "not_wired"


def test_b5105_b140_shares_end_at_midnight_and_with_the_month() -> None:
    spent = facts(network=NetworkFacts("no", "wired", 10 * MIB, 100 * MIB))
    assert judge(NETWORK, spent, network__day_mib=11) is None
    day = judge(NETWORK, spent, network__day_mib=10)
    assert day is not None
    assert (code(day), day.until_s) == ("day_spent", NOW_S + 12 * 3600)
    month = judge(NETWORK, spent, network__day_mib=10, network__month_mib=100)
    assert month is not None
    assert (code(month), month.until_s) == ("month_spent", NOW_S + 30.5 * 86_400)


def test_the_month_after_december_and_a_day_of_23_hours() -> None:
    zone = ZoneInfo("Europe/Berlin")
    spent = NetworkFacts("no", "wired", 10 * MIB, 10 * MIB)
    before = datetime(2026, 3, 28, 23, tzinfo=zone).timestamp()
    day = judge(NETWORK, facts(now_s=before, zone=zone, network=spent), network__day_mib=1)
    assert day is not None
    assert day.until_s == before + 3600
    december = datetime(2026, 12, 31, 12, tzinfo=zone).timestamp()
    month = judge(NETWORK, facts(now_s=december, zone=zone, network=spent), network__month_mib=1)
    assert month is not None
    assert month.until_s == december + 12 * 3600
