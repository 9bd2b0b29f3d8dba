"""Metered networks, radio networks, and what may be sent and received a day and a month."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from app.policy.rule import Reason, Rule, Ruling, Situation, Verdict, unknown
from gpugoblin.units import MIB

__all__ = ["NETWORK"]


def _network(situation: Situation) -> Verdict | None:
    choices, network = situation.choices, situation.snapshot.network
    day_mib, month_mib = choices.number("network.day_mib"), choices.number("network.month_mib")
    wired_only = choices.flag("network.wired_only")
    if not (choices.flag("network.metered_stops") or wired_only or day_mib or month_mib):
        return None
    if network is None:
        return unknown(situation, "network")
    if network.metered in ("yes", "guess_yes") and choices.flag("network.metered_stops"):
        return Verdict(Ruling.STOP, Reason("metered"))
    if wired_only and network.kind != "wired":
        return Verdict(Ruling.STOP, Reason("not_wired"))
    if month_mib and network.month_bytes >= month_mib * MIB:
        reason = Reason("month_spent", (("limit_bytes", month_mib * MIB),))
        return Verdict(Ruling.STOP, reason, _next_month_s(situation))
    if day_mib and network.day_bytes >= day_mib * MIB:
        reason = Reason("day_spent", (("limit_bytes", day_mib * MIB),))
        return Verdict(Ruling.STOP, reason, _tomorrow_s(situation))
    return None


def _tomorrow_s(situation: Situation) -> float:
    now = datetime.fromtimestamp(situation.snapshot.now_s, situation.snapshot.zone)
    tomorrow = now.date() + timedelta(days=1)
    return datetime(
        tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=situation.snapshot.zone
    ).timestamp()


def _next_month_s(situation: Situation) -> float:
    now = datetime.fromtimestamp(situation.snapshot.now_s, situation.snapshot.zone)
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return datetime(year, month, 1, tzinfo=situation.snapshot.zone).timestamp()


NETWORK: Final = Rule(
    "network",
    "On a metered network, on Wi-Fi if you want a cable, or when the day's or the month's share of"
    " data is used up, nothing is lent.",
    _network,
    settle="calm.after_s",
)
