"""The rule that lends whenever nothing forbids it, so that every card has at least one reason."""

from __future__ import annotations

from app.policy.rule import Reason, Ruling, Verdict
from app.policy.snapshot import CardFacts, Snapshot

__all__ = ["always"]


def always(snapshot: Snapshot, card: CardFacts) -> Verdict:
    """RUN, at any hour."""
    return Verdict(Ruling.RUN, Reason("lending"))
