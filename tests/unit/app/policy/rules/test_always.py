"""The rule that lends at any hour, for any card."""

from __future__ import annotations

from app.policy.rule import Ruling
from app.policy.rules.always import always
from app.policy.snapshot import CardFacts, Snapshot


def test_it_runs_whatever_the_hour() -> None:
    card = CardFacts(0, "cuda")
    verdicts = [always(Snapshot(hour * 3600.0, (card,)), card) for hour in range(24)]
    assert {verdict.ruling for verdict in verdicts} == {Ruling.RUN}
