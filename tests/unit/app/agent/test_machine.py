"""The machine and the network: contacts, grants, leases, blobs, results."""

from __future__ import annotations

import pytest

from app.agent.events import (
    BlobFailed,
    BlobReady,
    CardFound,
    ContactFailed,
    ContactReply,
    EngineDone,
    EngineReady,
    Enrolled,
    ExchangeDone,
    ExchangeFailed,
    LeaseCancelled,
    LeaseRefused,
    LeaseUnusable,
    SubmitDeferred,
    TaskRefused,
    Tick,
    UploadDone,
    UploadFailed,
    UploadsAwaited,
)
from app.agent.instructions import (
    CancelTask,
    Contact,
    DropGrant,
    DropLease,
    Exchange,
    Fetch,
    ForgetLease,
    OpenGrant,
    RememberLease,
    Say,
    SubmitTask,
    Upload,
)
from gpugoblin.ids import GrantId
from tests.helpers.machine_run import (
    G1,
    G2,
    L1,
    L2,
    L3,
    L4,
    OTHER,
    RUN,
    Run,
    X,
    Y,
    computing,
    lease,
    news,
    no,
    of,
    offer,
    started,
    uploading,
)


def test_nothing_happens_before_the_policy_has_spoken() -> None:
    run = Run()
    assert run.tell(CardFound(card=0, kind="cpu"), Enrolled(), Tick()) == []


def test_no_contact_before_enrolment() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cpu"), RUN)
    run.tell(EngineReady(card=0))
    assert no(run, Contact)
    run.tell(Enrolled())
    assert of(run, Contact)


def test_a_grant_is_opened_and_leases_are_asked_for_with_capabilities() -> None:
    run = started()
    assert of(run, OpenGrant, grant=G1)
    assert of(run, Exchange, grant=G1, want=4, introduces=True, commits=(), abandons=())


def test_capabilities_are_sent_once() -> None:
    run = started()
    run.answer(wait_s=1.0)
    run.tell(Tick(), after_s=1.0)
    assert of(run, Exchange, introduces=False)


def test_a_failed_introduction_is_made_again() -> None:
    run = started()
    failed = ExchangeFailed(
        grant=G1, exchange=run.exchange(), code="x", retry_s=2.0, is_final=False
    )
    run.tell(failed)
    assert of(run, Say, code="lab_away")
    assert no(run, Exchange)
    run.tell(Tick(), after_s=2.0)
    assert of(run, Exchange, introduces=True, want=4)


def test_the_next_contact_is_when_the_coordinator_says() -> None:
    run = started(unused_engine_s=1e6)
    run.answer(wait_s=10_000.0)
    assert run.tell(Tick(), after_s=299.0) == []
    run.tell(Tick(), after_s=1.0)
    assert of(run, Contact, holding=(G1,), wants=())


def test_a_device_without_a_grant_asks_soon_again_and_then_less_and_less() -> None:
    run = Run(unused_engine_s=1e6)
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    run.tell(EngineReady(card=0))
    waits: list[float] = []
    for _ in range(8):
        assert of(run, Contact, wants=(0,))
        run.tell(ContactReply(grants=(), revoked=(), next_contact_s=60.0))
        model = run.machine.model
        assert model.contact_at_s is not None
        waits.append(model.contact_at_s - model.now_s)
        run.tell(Tick(), after_s=waits[-1])
    assert waits == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0, 60.0]
    run.tell(ContactReply(grants=(news(),), revoked=(), next_contact_s=300.0))
    assert run.machine.model.contacts_in_vain == 0


def test_a_second_grant_for_the_same_lab_is_of_no_use() -> None:
    run = started(dry_asks=1)
    run.answer(wait_s=1.0)
    reply = ContactReply(
        grants=(news(G2), news(GrantId("grant_c"), OTHER)), revoked=(), next_contact_s=300.0
    )
    run.tell(reply)
    assert no(run, OpenGrant, grant=G2)
    assert of(run, OpenGrant, grant=GrantId("grant_c"))


def test_a_lab_is_asked_now_and_then_whether_it_still_wants_what_is_held() -> None:
    run = started(heartbeat_s=10.0)
    run.answer(offer(L1), offer(L2), offer(L3), offer(L4), wait_s=1.0)
    run.tell(Tick(), after_s=9.0)
    assert no(run, Exchange)
    run.tell(Tick(), after_s=1.0)
    assert of(run, Exchange, want=0, holding=(L1, L2, L3, L4))
    run.answer(LeaseCancelled(lease=L3))
    assert of(run, ForgetLease, lease=L3)


def test_a_coordinator_that_refuses_is_not_said_to_be_away() -> None:
    run = started()
    run.answer(wait_s=10_000.0)
    run.tell(Tick(), after_s=300.0)
    run.tell(ContactFailed(code="peer_refused", retry_s=7.0))
    assert of(run, Say, code="coordinator_refuses")
    assert no(run, Say, code="coordinator_away")


def test_a_coordinator_that_is_away_is_said_once_and_asked_again_later() -> None:
    run = started()
    run.answer(wait_s=10_000.0)
    run.tell(Tick(), after_s=300.0)
    run.tell(ContactFailed(code="x", retry_s=7.0))
    assert of(run, Say, code="coordinator_away")
    run.tell(Tick(), after_s=7.0)
    assert of(run, Contact)
    run.tell(ContactFailed(code="x", retry_s=7.0))
    assert no(run, Say)
    run.tell(Tick(), after_s=7.0)
    run.tell(ContactReply(grants=(), revoked=(), next_contact_s=300.0))
    assert of(run, Say, code="coordinator_back")


def test_a_lease_is_written_down_before_its_inputs_are_fetched() -> None:
    run = started()
    run.answer(offer(L1, X, Y))
    kinds = [type(each) for each in run.last]
    assert kinds.index(RememberLease) < kinds.index(Fetch)
    assert of(run, Fetch, blob=X, lease=L1, nbytes=64)
    assert of(run, Fetch, blob=Y)


def test_a_blob_of_two_leases_is_fetched_once() -> None:
    run = started()
    run.answer(offer(L1, X), offer(L2, X))
    assert of(run, Fetch, blob=X)
    run.tell(BlobReady(grant=G1, blob=X))
    assert of(run, SubmitTask, lease=L1)
    assert of(run, SubmitTask, lease=L2)


def test_a_lease_without_inputs_is_submitted_at_once() -> None:
    run = computing(L1)
    assert of(run, SubmitTask, card=0, lease=L1)


def test_commit_and_the_next_lease_share_one_exchange() -> None:
    run = computing(L1, L2)
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, Exchange, commits=(L1,), holding=(L2,), want=3)


def test_bytes_travel_only_once_the_lab_awaits_them() -> None:
    run = computing(L1)
    run.tell(EngineDone(card=0, lease=L1))
    assert no(run, Upload)
    run.answer(wait_s=5.0)
    assert no(run, Upload)
    assert run.stage(L1) == "committed"
    run.tell(Tick(), after_s=5.0)
    run.answer(UploadsAwaited(leases=(L1,)))
    assert of(run, Upload, grant=G1, lease=L1)


def test_uploads_named_for_leases_that_were_not_committed_are_ignored() -> None:
    run = computing(L1)
    run.tell(UploadsAwaited(leases=(L1, L2)))
    assert no(run, Upload)
    assert run.stage(L1) == "submitted"


def test_a_sent_result_is_forgotten() -> None:
    run = uploading()
    run.tell(UploadDone(lease=L1, state="checking"))
    assert of(run, DropLease, lease=L1)
    assert of(run, ForgetLease, lease=L1)
    assert of(run, Say, code="result_sent")


def test_a_broken_upload_goes_on_after_its_wait() -> None:
    run = uploading()
    run.tell(UploadFailed(lease=L1, code="x", retry_s=3.0, is_final=False))
    assert no(run, Upload)
    run.tell(Tick(), after_s=3.0)
    assert of(run, Upload, lease=L1)


def test_an_upload_that_the_lab_refuses_is_given_up() -> None:
    run = uploading()
    run.tell(UploadFailed(lease=L1, code="x", retry_s=3.0, is_final=True))
    assert of(run, ForgetLease, lease=L1)
    assert of(run, Say, code="result_refused")


def test_a_refused_commit_is_dropped_and_said() -> None:
    run = computing(L1)
    run.tell(EngineDone(card=0, lease=L1))
    run.answer(LeaseRefused(lease=L1, code="lease_unknown"))
    assert of(run, Say, code="result_refused")
    assert of(run, ForgetLease, lease=L1)


def test_a_failed_exchange_commits_again() -> None:
    run = computing(L1)
    run.tell(EngineDone(card=0, lease=L1))
    failed = ExchangeFailed(
        grant=G1, exchange=run.exchange(), code="x", retry_s=2.0, is_final=False
    )
    run.tell(failed)
    assert no(run, Exchange)
    assert run.stage(L1) == "computed"
    run.tell(Tick(), after_s=2.0)
    assert of(run, Exchange, commits=(L1,))


def test_an_exchange_that_the_lab_will_never_take_ends_the_grant() -> None:
    run = computing(L1)
    run.tell(EngineDone(card=0, lease=L1))
    failed = ExchangeFailed(
        grant=G1, exchange=run.exchange(), code="ticket_expired", retry_s=2.0, is_final=True
    )
    run.tell(failed)
    assert of(run, DropGrant, grant=G1)
    assert of(run, ForgetLease, lease=L1)
    assert of(run, Say, code="grant_ended")


def test_a_commit_overtakes_an_exchange_that_the_lab_holds() -> None:
    run = started()
    run.answer(offer(L1))
    assert of(run, Exchange, want=3)
    asking = run.exchange()
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, Exchange, commits=(L1,), want=0)
    run.tell(ExchangeDone(grant=G1, exchange=asking, wait_s=0.0))
    assert run.stage(L1) == "committing"


def test_an_overtaking_commit_does_not_lose_what_was_asked_for() -> None:
    run = started()
    run.answer(offer(L1))
    asking = run.exchange()
    run.tell(EngineDone(card=0, lease=L1))
    run.answer()
    run.tell(offer(L2), offer(L3), ExchangeDone(grant=G1, exchange=asking, wait_s=0.0))
    assert of(run, SubmitTask, lease=L2)
    assert of(run, SubmitTask, lease=L3)


def test_a_lab_that_sends_more_than_was_asked_for_gets_them_back() -> None:
    run = started()
    run.answer(*(offer(lease(number)) for number in range(6)))
    exchange = next(each for each in run.last if isinstance(each, Exchange))
    assert exchange.abandons == ((lease(4), "owner"), (lease(5), "owner"))


def test_a_lease_that_is_offered_twice_is_one_lease() -> None:
    run = started()
    run.answer(offer(L1), offer(L1))
    assert of(run, SubmitTask, lease=L1)
    assert of(run, RememberLease, lease=L1)


def test_an_unknown_lease_in_any_event_changes_nothing() -> None:
    run = computing(L1)
    run.tell(LeaseCancelled(lease=L2), LeaseRefused(lease=L2, code="x"))
    run.tell(EngineDone(card=0, lease=L2), TaskRefused(card=0, lease=L2, code="x"))
    run.tell(SubmitDeferred(card=0, lease=L2), UploadDone(lease=L2, state="late"))
    run.tell(UploadFailed(lease=L2, code="x", retry_s=1.0, is_final=True))
    run.tell(BlobReady(grant=G2, blob=X), ExchangeDone(grant=G2, exchange=9, wait_s=0.0))
    assert run.last == []
    assert run.stage(L1) == "submitted"


@pytest.mark.parametrize("code", ["does_not_fit", "class_unsupported"])
def test_a_task_that_does_not_fit_is_given_back_without_blame(code: str) -> None:
    run = computing(L1)
    run.tell(TaskRefused(card=0, lease=L1, code=code, is_unfit=True))
    assert of(run, Exchange, abandons=((L1, "does_not_fit"),))
    assert run.machine.model.cards[0].failures == 0
    assert run.machine.model.grants[G1].faults == 0


def test_a_task_without_room_waits_for_the_one_before_it() -> None:
    run = computing(L1, L2)
    run.tell(SubmitDeferred(card=0, lease=L2))
    assert no(run, SubmitTask)
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, SubmitTask, lease=L2)


def test_a_task_without_room_in_an_empty_arena_is_given_back() -> None:
    run = computing(L1)
    run.tell(SubmitDeferred(card=0, lease=L1))
    assert of(run, Exchange, abandons=((L1, "does_not_fit"),))


def test_a_blob_is_tried_again_and_then_its_lease_is_given_back() -> None:
    run = started(fetch_attempts=2)
    run.answer(offer(L1, X))
    failed = BlobFailed(grant=G1, blob=X, code="x", retry_s=2.0, is_final=False)
    run.tell(failed)
    assert no(run, Fetch)
    run.tell(Tick(), after_s=2.0)
    assert of(run, Fetch, blob=X)
    run.tell(failed)
    assert run.stage(L1) in ("giving_back", "abandoning")
    assert of(run, Say, code="lease_given_back")


def test_a_lying_lab_gets_the_lease_back_at_once() -> None:
    run = started()
    run.answer(offer(L1, X), wait_s=99.0)
    run.tell(BlobFailed(grant=G1, blob=X, code="blob_is_false", retry_s=2.0, is_final=True))
    assert of(run, Exchange, abandons=((L1, "inputs_missing"),))


def test_a_lab_that_lies_again_and_again_is_shunned() -> None:
    run = started()
    lie = BlobFailed(grant=G1, blob=X, code="false", retry_s=1.0, is_final=True, is_lie=True)
    for number in range(3):
        assert G1 in run.machine.model.grants
        run.answer(offer(lease(number), X))
        run.tell(lie)
    assert of(run, Say, code="lab_shunned")
    assert of(run, DropGrant, grant=G1)
    run.tell(ContactReply(grants=(news(G2),), revoked=(), next_contact_s=300.0))
    assert no(run, OpenGrant)
    run.tell(Tick(), after_s=600.0)
    run.tell(ContactReply(grants=(news(G2),), revoked=(), next_contact_s=300.0))
    assert of(run, OpenGrant, grant=G2)


def test_a_lease_that_makes_no_sense_goes_back_and_counts_against_the_lab() -> None:
    run = started()
    run.answer(LeaseUnusable(grant=G1, lease=L1, code="lease_unusable"))
    assert of(run, RememberLease, lease=L1)
    assert of(run, Exchange, abandons=((L1, "inputs_missing"),))
    assert run.machine.model.grants[G1].faults == 1


def test_nothing_is_asked_for_while_too_many_results_wait() -> None:
    run = started(kept_bytes=100)
    run.answer(offer(L1), offer(L2), wait_s=1.0)
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, Exchange, commits=(L1,), want=3)
    run.answer(wait_s=1.0)
    run.tell(EngineDone(card=0, lease=L2))
    assert of(run, Exchange, commits=(L2,), want=0)


def test_a_lease_that_ends_while_its_inputs_are_fetched_is_given_back() -> None:
    run = started()
    run.answer(offer(L1, X, remaining_s=5.0), wait_s=99.0)
    run.tell(Tick(), after_s=5.0)
    assert of(run, Exchange, abandons=((L1, "inputs_missing"),))


def test_a_lease_that_ends_while_it_computes_goes_on() -> None:
    run = started()
    run.answer(offer(L1, remaining_s=5.0), wait_s=99.0)
    run.tell(Tick(), after_s=5.0)
    assert run.stage(L1) == "submitted"


def test_a_revoked_grant_is_gone_with_everything_of_it() -> None:
    run = computing(L1)
    run.tell(ContactReply(grants=(), revoked=(G1,), next_contact_s=300.0))
    assert of(run, DropGrant, grant=G1)
    assert of(run, CancelTask, lease=L1)
    assert of(run, ForgetLease, lease=L1)
    assert of(run, DropLease, lease=L1)


def test_a_grant_ends_by_itself() -> None:
    run = computing(L1)
    run.tell(Tick(), after_s=3600.0)
    assert of(run, DropGrant, grant=G1)
    assert of(run, Say, code="grant_ended")
