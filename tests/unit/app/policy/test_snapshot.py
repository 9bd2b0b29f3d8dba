"""A snapshot knows nothing before it is told."""

from __future__ import annotations

from app.policy.snapshot import Snapshot
from tests.helpers.situations import CPU, GPU, rulings


def test_what_was_not_looked_at_is_unknown_and_nothing_is_lent() -> None:
    blind = Snapshot(0.0, (CPU, GPU))
    for ruling in rulings(blind):
        assert ruling.ruling.name == "STOP"
        codes = {reason.code for reason in ruling.reasons}
        assert {"idle_unknown", "play_unknown", "power_unknown", "network_unknown"} <= codes
