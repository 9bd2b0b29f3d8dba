"""A lab's answer becomes events; leases that contradict themselves are named, not believed."""

from __future__ import annotations

import msgspec
import pytest

from app.agent.events import (
    LeaseCancelled,
    LeaseOffered,
    LeaseRefused,
    LeaseUnusable,
    UploadsAwaited,
)
from app.agent.offers import MAX_REMAINING_S, read_lease, read_reply
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId
from gpugoblin.wire.keys import make_key
from gpugoblin.wire.messages.lease import ExchangeReply, Lease, Refusal
from gpugoblin.wire.messages.task import OutputSpec, TaskInput
from gpugoblin.wire.tickets import BlobTicket, sign_blob_ticket
from tests.helpers.messages import example

KEY = b"d" * 32
LAB, GRANT = LabId("lab_a"), GrantId("grant_a")
X, Y = BlobHash("aa" * 32), BlobHash("bb" * 32)


def lease(name: str = "lease_a", inputs: tuple[TaskInput, ...] = (), **fields: object) -> Lease:
    claims = BlobTicket("ticket_a", LAB, 2000, 1000, KEY.hex(), GRANT)
    task = msgspec.structs.replace(
        example(Lease, bare=True).task,
        inputs=inputs,
        outputs=(OutputSpec(0, "float32", (3, 4)), OutputSpec(1, "bool", ())),
    )
    made = Lease(LeaseId(name), 1600.0, task, sign_blob_ticket(make_key(), claims))
    return msgspec.structs.replace(made, **fields)


def test_a_good_lease_is_put_in_the_order_of_its_slots() -> None:
    inputs = (TaskInput(1, Y, 8), TaskInput(0, X, 4), TaskInput(2, X, 4))
    held = read_lease(lease(inputs=inputs), GRANT, LAB, KEY)
    assert [each.slot for each in held.task.inputs] == [0, 1, 2]
    assert held.blobs == {X: 4, Y: 8}


@pytest.mark.parametrize(
    "inputs",
    [
        (TaskInput(0, X, 4), TaskInput(0, Y, 4)),
        (TaskInput(1, X, 4),),
        (TaskInput(0, X, 4), TaskInput(1, X, 5)),
    ],
)
def test_a_lease_that_contradicts_itself(inputs: tuple[TaskInput, ...]) -> None:
    with pytest.raises(AgentError) as caught:
        read_lease(lease(inputs=inputs), GRANT, LAB, KEY)
    assert caught.value.code == "lease_unusable"


def test_a_lease_without_inputs_needs_no_ticket() -> None:
    assert read_lease(lease(blob_ticket="x"), GRANT, LAB, KEY).blobs == {}


def test_an_answer_in_the_order_that_the_machine_wants() -> None:
    bad = lease("lease_b", (TaskInput(0, X, 4), TaskInput(0, X, 4)))
    reply = ExchangeReply(
        leases=(lease(inputs=(TaskInput(0, X, 4),)), bad),
        uploads=(LeaseId("lease_c"),),
        cancelled=(LeaseId("lease_d"),),
        refused=(Refusal(LeaseId("lease_e"), "late"),),
    )
    news, held = read_reply(reply, GRANT, LAB, KEY, 1500.0)
    assert [type(each) for each in news] == [
        LeaseOffered,
        LeaseUnusable,
        UploadsAwaited,
        LeaseCancelled,
        LeaseRefused,
    ]
    offered = news[0]
    assert isinstance(offered, LeaseOffered)
    assert (offered.remaining_s, offered.output_bytes) == (100.0, 3 * 4 * 4 + 1)
    assert set(held) == {"lease_a"}


def test_a_lease_that_would_last_for_years_lasts_a_day() -> None:
    reply = ExchangeReply(leases=(lease(until_s=1e11),))
    news, _ = read_reply(reply, GRANT, LAB, KEY, 0.0)
    assert isinstance(news[0], LeaseOffered)
    assert news[0].remaining_s == MAX_REMAINING_S
