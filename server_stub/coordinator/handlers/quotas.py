"""Quotas of labs: the share of cards that each gets, and the most at once.

Owns: showing and changing them. Each change is a line of the record, with the new values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpugoblin.errors import CoordinatorError
from gpugoblin.ids import LabId
from server_stub.coordinator import audit
from server_stub.coordinator.handlers.operator import MAX_CARDS, MAX_WEIGHT
from server_stub.coordinator.handlers.signin import Person
from server_stub.coordinator.ledger import MICRO, day_of
from server_stub.coordinator.store import Transaction

__all__ = ["Quota", "change", "parse", "quotas"]


@dataclass(frozen=True, slots=True)
class Quota:
    """What a lab may have, and what it has. `units_today` is what it booked since 0:00 UTC."""

    lab: LabId
    name: str
    weight: float
    max_cards: int
    cards_wanted: int
    cards_held: int
    units_today: float


def quotas(tx: Transaction, now_s: float) -> list[Quota]:
    """Those of all labs, by name."""
    return [
        Quota(LabId(lab), name, weight, most, wanted, held, micro / MICRO)
        for lab, name, weight, most, wanted, held, micro in tx.rows(
            "SELECT lab.lab, name, weight, max_cards, cards_wanted, cards_held,"
            " COALESCE(micro_units, 0) FROM lab"
            " LEFT JOIN lab_day ON lab_day.lab = lab.lab AND day = ? ORDER BY name",
            day_of(now_s),
        )
    ]


def parse(weight: str, max_cards: str) -> tuple[float, int]:
    """The values of a form.

    Raises:
        CoordinatorError: `quota_malformed`.
    """
    try:
        found = float(weight[:32])
    except ValueError:
        raise CoordinatorError("quota_malformed", field="weight") from None
    if not (max_cards.isascii() and max_cards.isdecimal() and len(max_cards) <= 9):
        raise CoordinatorError("quota_malformed", field="max_cards")
    return found, int(max_cards)


def change(
    tx: Transaction, now_s: float, operator: Person, lab: str, weight: float, max_cards: int
) -> None:
    """Gives a lab another quota. A card beyond it stays until its grant ends.

    Raises:
        CoordinatorError: `operator_only`, `quota_malformed`, `coordinator_subject_unknown`.
    """
    if not operator.is_operator:
        raise CoordinatorError("operator_only")
    weight = round(weight, 3) if math.isfinite(weight) else math.nan
    if not 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT:
        raise CoordinatorError("quota_malformed", field="weight")
    if not 0 <= max_cards <= MAX_CARDS:
        raise CoordinatorError("quota_malformed", field="max_cards")
    changed = tx.execute(
        "UPDATE lab SET weight = ?, max_cards = ? WHERE lab = ?", weight, max_cards, lab
    )
    if changed == 0:
        raise CoordinatorError("coordinator_subject_unknown", kind="lab", name=lab[:64])
    subject = f"{lab} weight={weight:g} cards={max_cards}"
    audit.record(tx, now_s, operator.account, "lab_quota", subject)
