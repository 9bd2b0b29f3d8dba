"""Steps that several events share."""

from __future__ import annotations

from app.agent.instructions import CancelTask, DropGrant, DropLease, ForgetLease, Say
from app.agent.model import CardState, GrantState, LeaseState, Limits, Model, Stage
from app.agent.transitions import (
    Output,
    drop_grant,
    drop_lease,
    give_back,
    has_failed,
    lab_at_fault,
)
from gpugoblin.ids import GrantId, LabId, LeaseId

G, L = GrantId("grant_a"), LeaseId("lease_a")


def model(stage: Stage) -> Model:
    made = Model(Limits(restart_s=1.0, rest_s=50.0), now_s=10.0)
    made.cards[0] = CardState(0, "cpu", grant=G)
    made.grants[G] = GrantState(G, LabId("lab_a"), 0, 1000.0, 8)
    made.leases[L] = LeaseState(L, G, 0, 1, 500.0, stage=stage)
    return made


def kinds(output: Output) -> list[type]:
    return [type(each) for each in output.instructions]


def test_a_lease_is_given_back_once() -> None:
    made, output = model("submitted"), Output("s")
    give_back(made.leases[L], "owner", output)
    assert kinds(output) == [CancelTask, DropLease, Say]
    give_back(made.leases[L], "shutdown", output)
    assert len(output.instructions) == 3
    assert made.leases[L].reason == "owner"
    assert {each.stimulus for each in output.instructions} == {"s"}


def test_a_dropped_lease_is_forgotten() -> None:
    made, output = model("submitted"), Output()
    drop_lease(made, L, output)
    drop_lease(made, L, output)
    assert kinds(output) == [CancelTask, DropLease, ForgetLease]
    assert made.cards[0].idle_since_s == 10.0


def test_a_dropped_grant_takes_its_leases() -> None:
    made, output = model("uploading"), Output()
    drop_grant(made, G, "grant_over", output)
    assert kinds(output) == [DropLease, ForgetLease, DropGrant, Say]
    assert made.leases == made.grants == {}
    assert made.cards[0].grant is None


def test_waits_double_until_the_card_rests() -> None:
    made, output = model("ready"), Output()
    waits = []
    for _ in range(3):
        has_failed(made, made.cards[0], output)
        waits.append(made.cards[0].rest_until_s - made.now_s)
    assert waits == [1.0, 2.0, 50.0]


def test_a_lab_is_shunned_with_all_its_grants() -> None:
    made, output = model("ready"), Output()
    other = GrantId("grant_b")
    made.grants[other] = GrantState(other, LabId("lab_a"), 0, 1000.0, 8)
    for _ in range(3):
        lab_at_fault(made, G, "blob_is_false", output)
    lab_at_fault(made, G, "blob_is_false", output)
    assert made.grants == {}
    assert made.shunned_until_s == {"lab_a": 60.0}
