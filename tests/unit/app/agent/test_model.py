"""Every invariant has a state that breaks it, and is named in a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.agent.model import CardState, GrantState, LeaseState, Limits, Model
from gpugoblin.ids import GrantId, LabId, LeaseId

G = GrantId("grant_a")


def sound() -> Model:
    model = Model(Limits())
    model.cards[0] = CardState(
        0, "cpu", ruling="RUN", engine="ready", lab=LabId("lab_a"), is_measured=True
    )
    model.grants[G] = GrantState(G, LabId("lab_a"), 0, 1000.0, 8)
    for number, stage in enumerate(("submitted", "ready", "computed", "uploading")):
        lease = LeaseState(LeaseId(f"lease_{number}"), G, 0, number, 500.0, output_bytes=10)
        lease.stage = stage  # type: ignore[assignment]
        model.leases[lease.lease] = lease
    return model


def no_grant(model: Model) -> None:
    model.grants.clear()


def other_card(model: Model) -> None:
    model.grants[G].card = 1


def no_exchange(model: Model) -> None:
    lease = model.leases[LeaseId("lease_2")]
    lease.stage, lease.exchange = "committing", 9


def no_engine(model: Model) -> None:
    model.cards[0].engine = "absent"


def two_labs(model: Model) -> None:
    model.cards[0].lab = LabId("lab_b")


def too_many(model: Model) -> None:
    for lease in model.leases.values():
        lease.stage = "submitted"


def stopped(model: Model) -> None:
    model.cards[0].ruling = "STOP"


def ending(model: Model) -> None:
    model.is_ending = True


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (other_card, "on another card than its grant"),
        (no_exchange, "an exchange that is not in flight"),
        (no_engine, "submitted tasks and no engine"),
        (two_labs, "two labs in one engine"),
        (too_many, "4 tasks in its engine"),
        (stopped, "its engine is not"),
        (ending, "still has leases"),
    ],
)
def test_a_broken_invariant_is_named(spoil: Callable[[Model], None], words: str) -> None:
    model = sound()
    assert list(model.problems()) == []
    spoil(model)
    assert any(words in problem for problem in model.problems())


def test_a_lease_without_its_grant() -> None:
    model = sound()
    del model.leases[LeaseId("lease_0")]
    no_grant(model)
    assert "has no grant" in next(model.problems())


def test_questions() -> None:
    model = sound()
    assert [lease.lease for lease in model.submitted(0)] == ["lease_0"]
    assert len(model.on_card(0)) == 2
    assert model.kept_bytes(0) == 20
    assert len(model.of_grant(G)) == 4
