"""The agent's machine: what happens, and what it then says to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import Struct

from app.agent.events import (
    AskedToEnd,
    BlobFailed,
    BlobReady,
    CardFound,
    ContactFailed,
    ContactReply,
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    Enrolled,
    Event,
    ExchangeDone,
    ExchangeFailed,
    GrantNews,
    LeaseCancelled,
    LeaseInput,
    LeaseOffered,
    LeaseRefused,
    LeaseUnusable,
    Recalled,
    RulingChanged,
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
    Drained,
    DropGrant,
    DropLease,
    End,
    Exchange,
    Fetch,
    ForgetLease,
    FreezeEngine,
    Instruction,
    OpenGrant,
    RememberLease,
    Say,
    StartEngine,
    StopEngine,
    SubmitTask,
    ThawEngine,
    Upload,
    matches,
)
from app.agent.machine import Machine
from app.agent.model import Limits
from gpugoblin.errors import AgentError
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId

LAB, OTHER = LabId("lab_a"), LabId("lab_b")
G1, G2 = GrantId("grant_a"), GrantId("grant_b")
X, Y = BlobHash("aa" * 32), BlobHash("bb" * 32)


def lease(number: int) -> LeaseId:
    return LeaseId(f"lease_{'abcdefghijklmnop'[number]}")


L1, L2, L3, L4 = (lease(number) for number in range(4))

RUN = RulingChanged(card=0, ruling="RUN", is_draining=False)
PAUSE = RulingChanged(card=0, ruling="STOP", is_draining=False)
FINISH = RulingChanged(card=0, ruling="RUN", is_draining=True)


def news(grant: GrantId = G1, lab: LabId = LAB, remaining_s: float = 3600.0) -> GrantNews:
    return GrantNews(grant, lab, 0, remaining_s, 8)


def offer(
    name: LeaseId, *blobs: BlobHash, grant: GrantId = G1, remaining_s: float = 60.0
) -> LeaseOffered:
    inputs = tuple(LeaseInput(blob, 64) for blob in blobs)
    return LeaseOffered(
        grant=grant, lease=name, remaining_s=remaining_s, inputs=inputs, output_bytes=64
    )


class Run:
    """A machine, its clock, and everything it ever said."""

    def __init__(self, **limits: Any) -> None:
        self.machine = Machine(Limits(**limits))
        self.now_s = 1000.0
        self.said: list[Instruction] = []
        self.last: list[Instruction] = []

    def tell(self, *events: Event, after_s: float = 0.0) -> list[Instruction]:
        self.now_s += after_s
        self.last = self.machine.handle(self.now_s, *events)
        self.said += self.last
        return self.last

    def exchange(self) -> int:
        return next(each.exchange for each in reversed(self.said) if isinstance(each, Exchange))

    def answer(self, *events: Event, wait_s: float = 0.0, grant: GrantId = G1) -> list[Instruction]:
        done = ExchangeDone(grant=grant, exchange=self.exchange(), wait_s=wait_s)
        return self.tell(*events, done)

    def stage(self, name: LeaseId) -> str:
        return self.machine.model.leases[name].stage


def of(run: Run, kind: type[Struct], **partial: Any) -> bool:
    return sum(matches(each, kind, **partial) for each in run.last) == 1


def no(run: Run, kind: type[Struct], **partial: Any) -> bool:
    return not any(matches(each, kind, **partial) for each in run.last)


def started(**limits: Any) -> Run:
    """Enrolled, measured, contacted, with one grant, asking for leases."""
    run = Run(**limits)
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    run.tell(EngineReady(card=0))
    run.tell(ContactReply(grants=(news(),), revoked=(), next_contact_s=300.0))
    return run


def computing(*names: LeaseId, **limits: Any) -> Run:
    """As `started`, with leases whose inputs are there, submitted as far as the queue allows."""
    run = started(**limits)
    run.answer(*(offer(name) for name in names), wait_s=1000.0)
    return run


def uploading(**limits: Any) -> Run:
    run = computing(L1, **limits)
    run.tell(EngineDone(card=0, lease=L1))
    run.answer(UploadsAwaited(leases=(L1,)))
    return run


def test_nothing_happens_before_the_policy_has_spoken() -> None:
    run = Run()
    assert run.tell(CardFound(card=0, kind="cpu"), Enrolled(), Tick()) == []


def test_an_engine_is_measured_before_the_first_contact() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    assert of(run, StartEngine, card=0, lab=None)
    assert no(run, Contact)
    run.tell(EngineReady(card=0))
    assert of(run, Contact, holding=(), wants=(0,))


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


def test_a_grant_near_its_end_is_renewed() -> None:
    run = started()
    run.answer(wait_s=10_000.0)
    run.tell(Tick(), after_s=300.0)
    run.tell(ContactReply(grants=(), revoked=(), next_contact_s=3000.0))
    run.tell(Tick(), after_s=3000.0)
    assert of(run, Contact, holding=(G1,), wants=(0,))


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


def test_a_grant_for_an_unknown_card_is_ignored() -> None:
    run = started()
    stranger = GrantNews(G2, LAB, 5, 100.0, 8)
    run.tell(ContactReply(grants=(stranger,), revoked=(), next_contact_s=300.0))
    assert no(run, OpenGrant)


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


def test_two_tasks_lie_in_the_engine_and_more_wait_for_it() -> None:
    run = computing(L1, L2, L3)
    assert [each.lease for each in run.last if isinstance(each, SubmitTask)] == [L1, L2]
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, SubmitTask, lease=L3)


def test_inputs_of_waiting_leases_are_fetched_while_the_engine_computes() -> None:
    run = started()
    run.answer(offer(L1), offer(L2), offer(L3, X))
    assert of(run, Fetch, lease=L3)
    assert of(run, SubmitTask, lease=L1)


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


def test_a_cancelled_lease_leaves_the_engine() -> None:
    run = computing(L1)
    run.tell(LeaseCancelled(lease=L1))
    assert of(run, CancelTask, card=0, lease=L1)
    assert of(run, ForgetLease, lease=L1)


def test_an_unknown_lease_in_any_event_changes_nothing() -> None:
    run = computing(L1)
    run.tell(LeaseCancelled(lease=L2), LeaseRefused(lease=L2, code="x"))
    run.tell(EngineDone(card=0, lease=L2), TaskRefused(card=0, lease=L2, code="x"))
    run.tell(SubmitDeferred(card=0, lease=L2), UploadDone(lease=L2, state="late"))
    run.tell(UploadFailed(lease=L2, code="x", retry_s=1.0, is_final=True))
    run.tell(BlobReady(grant=G2, blob=X), ExchangeDone(grant=G2, exchange=9, wait_s=0.0))
    assert run.last == []
    assert run.stage(L1) == "submitted"


def test_a_task_that_does_not_fit_is_given_back_without_blame() -> None:
    run = computing(L1)
    run.tell(TaskRefused(card=0, lease=L1, code="does_not_fit"))
    assert of(run, Exchange, abandons=((L1, "does_not_fit"),))
    assert run.machine.model.cards[0].failures == 0


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


def test_nonsense_to_compute_counts_against_the_lab_and_not_the_card() -> None:
    run = computing(L1)
    run.tell(TaskRefused(card=0, lease=L1, code="graph_malformed", is_nonsense=True))
    assert of(run, Exchange, abandons=((L1, "engine_failed"),))
    assert run.machine.model.cards[0].failures == 0
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


def test_pause_frees_the_card_at_once_and_gives_the_leases_back() -> None:
    run = computing(L1, L2, L3)
    run.tell(PAUSE)
    assert of(run, StopEngine, card=0, reason="owner")
    assert of(run, Exchange, abandons=((L1, "owner"), (L2, "owner"), (L3, "owner")), want=0)


def test_pause_still_sends_what_is_computed() -> None:
    run = computing(L1)
    run.tell(EngineDone(card=0, lease=L1))
    run.tell(PAUSE)
    run.tell(EngineStopped(card=0))
    run.answer(UploadsAwaited(leases=(L1,)))
    assert of(run, Upload, lease=L1)


def test_leases_that_arrive_after_a_pause_go_back() -> None:
    run = started()
    run.tell(PAUSE)
    run.answer(offer(L1, X))
    assert of(run, Exchange, abandons=((L1, "owner"),), want=0)
    assert no(run, Fetch)


def test_resume_lends_again_with_the_grant_that_is_left() -> None:
    run = computing(L1)
    run.tell(PAUSE)
    run.answer()
    run.tell(EngineStopped(card=0))
    run.tell(RUN, after_s=1000.0)
    assert of(run, Exchange, want=4)


def test_stop_gives_the_grants_up_once_their_leases_are_told() -> None:
    run = computing(L1)
    run.tell(RulingChanged(card=0, ruling="STOP", is_draining=False, gives_up_grants=True))
    assert no(run, DropGrant)
    run.answer()
    assert of(run, DropGrant, grant=G1)


def test_resume_after_stop_contacts_at_once() -> None:
    run = started()
    run.answer(wait_s=99.0)
    run.tell(RulingChanged(card=0, ruling="STOP", is_draining=False, gives_up_grants=True))
    run.tell(EngineStopped(card=0))
    run.tell(RUN)
    assert of(run, Contact, wants=(0,))


def test_finish_ends_the_running_task_and_gives_the_others_back() -> None:
    run = computing(L1, L2, L3)
    run.tell(FINISH)
    assert of(run, CancelTask, lease=L2)
    assert no(run, CancelTask, lease=L1)
    assert of(run, Exchange, abandons=((L2, "owner"), (L3, "owner")), want=0)
    assert no(run, Drained)
    run.tell(EngineDone(card=0, lease=L1))
    assert of(run, Drained, card=0)


def test_drained_is_said_once() -> None:
    run = started()
    run.tell(FINISH)
    assert of(run, Drained, card=0)
    run.tell(Tick(), after_s=1.0)
    assert no(run, Drained)


def test_a_frozen_engine_keeps_its_tasks() -> None:
    run = computing(L1)
    run.tell(RulingChanged(card=0, ruling="FREEZE", is_draining=False))
    assert of(run, FreezeEngine, card=0)
    assert run.stage(L1) == "submitted"
    run.tell(RUN)
    assert of(run, ThawEngine, card=0)


def test_a_card_is_never_frozen_only_stopped() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cuda"), RUN)
    run.tell(EngineReady(card=0))
    run.tell(RulingChanged(card=0, ruling="FREEZE", is_draining=False))
    assert no(run, FreezeEngine)


def test_a_dead_engine_costs_the_task_that_ran_and_starts_again_later() -> None:
    run = computing(L1, L2, restart_s=4.0)
    run.tell(EngineDied(card=0, code="engine_died"))
    assert of(run, Exchange, abandons=((L1, "engine_failed"),), want=0)
    assert run.stage(L2) == "ready"
    assert no(run, StartEngine)
    run.tell(Tick(), after_s=4.0)
    assert of(run, StartEngine, card=0, lab=LAB)
    run.tell(EngineReady(card=0))
    assert of(run, SubmitTask, lease=L2)


def test_a_card_that_fails_three_times_rests() -> None:
    run = computing(L1, L2, L3, L4, restart_s=1.0, rest_s=500.0)
    for wait_s in (1.0, 2.0):
        run.tell(EngineDied(card=0, code="engine_died"))
        run.tell(Tick(), after_s=wait_s)
        run.tell(EngineReady(card=0))
    run.tell(EngineDied(card=0, code="engine_died"))
    assert of(run, Say, code="card_rests")
    assert run.stage(L4) == "ready"
    run.tell(Tick(), after_s=499.0)
    assert no(run, StartEngine)
    run.tell(Tick(), after_s=1.0)
    assert of(run, StartEngine, lab=LAB)


def test_a_task_that_succeeds_clears_the_failures() -> None:
    run = computing(L1, L2, restart_s=1.0)
    run.tell(EngineDied(card=0, code="engine_died"))
    run.tell(Tick(), after_s=1.0)
    run.tell(EngineReady(card=0))
    run.tell(EngineDone(card=0, lease=L2))
    assert run.machine.model.cards[0].failures == 0


def test_no_sandbox_no_leases() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    run.tell(EngineRefused(card=0, code="bwrap_missing", retry_s=300.0))
    assert of(run, Say, code="engine_refused")
    assert no(run, Contact)
    run.tell(Tick(), after_s=299.0)
    assert no(run, StartEngine)
    run.tell(Tick(), after_s=1.0)
    assert of(run, StartEngine, card=0)


def test_an_unused_engine_is_ended_and_starts_again_with_the_next_lease() -> None:
    run = started(unused_engine_s=50.0)
    run.answer(wait_s=60.0)
    run.tell(Tick(), after_s=50.0)
    assert of(run, StopEngine, reason="unused")
    run.tell(EngineStopped(card=0))
    assert no(run, StartEngine)
    run.tell(Tick(), after_s=10.0)
    run.answer(offer(L1, X))
    assert of(run, StartEngine, card=0, lab=LAB)
    assert of(run, Fetch, blob=X)


def test_an_engine_serves_one_lab() -> None:
    run = started(dry_asks=1)
    run.answer(offer(L1), wait_s=1.0)
    run.tell(
        ContactReply(
            grants=(news(G2, OTHER),),
            revoked=(),
            next_contact_s=300.0,
        )
    )
    run.tell(EngineDone(card=0, lease=L1))
    run.answer(LeaseRefused(lease=L1, code="x"), wait_s=1.0)
    assert of(run, Exchange, grant=G2, want=4)
    run.answer(offer(L2, grant=G2), grant=G2)
    assert of(run, StopEngine, card=0, reason="other_lab")
    assert no(run, SubmitTask)
    run.tell(EngineStopped(card=0))
    assert of(run, StartEngine, card=0, lab=OTHER)
    run.tell(EngineReady(card=0))
    assert of(run, SubmitTask, lease=L2)


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


def test_after_a_restart_every_lease_is_given_back() -> None:
    run = Run()
    run.tell(
        CardFound(card=0, kind="cpu"),
        Recalled(grants=(news(),), leases=((L1, G1), (L2, GrantId("grant_gone")))),
    )
    assert of(run, Exchange, grant=G1, abandons=((L1, "shutdown"),), want=0, introduces=False)
    assert of(run, ForgetLease, lease=L2)
    run.answer()
    assert of(run, ForgetLease, lease=L1)


def test_the_end_gives_everything_back_first() -> None:
    run = computing(L1, L2)
    run.tell(EngineDone(card=0, lease=L1))
    run.answer()
    run.tell(AskedToEnd())
    assert of(run, StopEngine, reason="shutdown")
    assert no(run, End)
    assert of(run, Exchange, abandons=((L1, "shutdown"), (L2, "shutdown")))
    run.tell(EngineStopped(card=0))
    assert no(run, End)
    run.answer()
    assert of(run, ForgetLease, lease=L1)
    assert of(run, End)


def test_the_end_does_not_wait_for_a_lab_that_is_away() -> None:
    run = computing(L1)
    run.tell(AskedToEnd(), EngineStopped(card=0))
    failed = ExchangeFailed(
        grant=G1, exchange=run.exchange(), code="x", retry_s=2.0, is_final=False
    )
    run.tell(failed)
    assert of(run, End)
    assert no(run, ForgetLease)


def test_the_end_comes_once_and_nothing_after_it() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cpu"), AskedToEnd())
    assert of(run, End)
    assert run.tell(Tick(), RUN, after_s=1.0) == []


def test_every_instruction_names_its_stimulus() -> None:
    run = started()
    asked = ExchangeDone(grant=G1, exchange=run.exchange(), wait_s=0.0, stimulus="reply-7")
    leased = LeaseOffered(
        grant=G1, lease=L1, remaining_s=9.0, inputs=(), output_bytes=1, stimulus="reply-7"
    )
    run.tell(leased, asked)
    assert run.last
    assert all(each.stimulus == "reply-7" for each in run.last)


def test_time_never_goes_back() -> None:
    run = started()
    before_s = run.machine.model.now_s
    run.tell(Tick(), after_s=-500.0)
    assert run.machine.model.now_s == before_s


def test_an_unsound_state_is_an_error_with_its_sentence() -> None:
    run = computing(L1)
    run.machine.model.cards[0].engine = "absent"
    run.machine.model.cards[0].rest_until_s = 1e9
    with pytest.raises(AgentError, match="submitted tasks and no engine") as caught:
        run.tell(Tick())
    assert caught.value.code == "machine_unsound"


class AnyOrder(RuleBasedStateMachine):
    """Events in any order, with true and false names: the machine stays sound and never raises."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(rest_s=5.0, unused_engine_s=3.0)
        self.run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
        self.forgotten: set[LeaseId] = set()
        self.remembered: set[LeaseId] = set()

    grants = st.sampled_from([G1, G2])
    leases = st.sampled_from([L1, L2, L3, L4])

    def tell(self, *events: Event, after_s: float = 0.0) -> None:
        for each in self.run.tell(*events, after_s=after_s):
            if isinstance(each, RememberLease):
                self.remembered.add(each.lease)
            if isinstance(each, ForgetLease):
                self.forgotten.add(each.lease)
                self.remembered.discard(each.lease)

    @rule(seconds=st.sampled_from([0.1, 1.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.tell(Tick(), after_s=seconds)

    @rule(event=st.sampled_from([RUN, PAUSE, FINISH]))
    def owner(self, event: Event) -> None:
        self.tell(event)

    @rule(event=st.sampled_from([EngineReady(card=0), EngineStopped(card=0)]))
    def engine_moves(self, event: Event) -> None:
        wanted = "starting" if isinstance(event, EngineReady) else "stopping"
        if self.run.machine.model.cards[0].engine == wanted:
            self.tell(event)

    @rule()
    def engine_dies(self) -> None:
        if self.run.machine.model.cards[0].engine == "ready":
            self.tell(EngineDied(card=0, code="engine_died"))

    @rule(grant=grants, lab=st.sampled_from([LAB, OTHER]), seconds=st.sampled_from([20.0, 900.0]))
    def granted(self, grant: GrantId, lab: LabId, seconds: float) -> None:
        self.tell(
            ContactReply(grants=(news(grant, lab, seconds),), revoked=(), next_contact_s=30.0)
        )

    @rule(grant=grants)
    def revoked(self, grant: GrantId) -> None:
        self.tell(ContactReply(grants=(), revoked=(grant,), next_contact_s=30.0))

    @rule(
        name=leases,
        blob=st.sampled_from([(), (X,), (X, Y)]),
        uploads=st.booleans(),
        cancelled=st.booleans(),
    )
    def answered(
        self, name: LeaseId, blob: tuple[BlobHash, ...], uploads: bool, cancelled: bool
    ) -> None:
        for grant in list(self.run.machine.model.grants.values()):
            for number in (grant.telling, grant.asking):
                if number:
                    events: list[Event] = [offer(name, *blob, grant=grant.grant)]
                    if uploads:
                        events.append(UploadsAwaited(leases=(L1, L2, L3, L4)))
                    if cancelled:
                        events.append(LeaseCancelled(lease=name))
                    self.tell(*events, ExchangeDone(grant=grant.grant, exchange=number, wait_s=0.0))

    @rule(final=st.booleans())
    def unanswered(self, final: bool) -> None:
        for grant in list(self.run.machine.model.grants.values()):
            number = grant.telling or grant.asking
            if number:
                self.tell(
                    ExchangeFailed(
                        grant=grant.grant, exchange=number, code="x", retry_s=1.0, is_final=final
                    )
                )

    @rule(grant=grants, blob=st.sampled_from([X, Y]), fails=st.booleans())
    def blob(self, grant: GrantId, blob: BlobHash, fails: bool) -> None:
        failed = BlobFailed(grant=grant, blob=blob, code="x", retry_s=1.0, is_final=False)
        self.tell(failed if fails else BlobReady(grant=grant, blob=blob))

    @rule(name=leases, how=st.sampled_from(["done", "refused", "does_not_fit", "deferred"]))
    def computed(self, name: LeaseId, how: str) -> None:
        events: dict[str, Event] = {
            "done": EngineDone(card=0, lease=name),
            "deferred": SubmitDeferred(card=0, lease=name),
        }
        self.tell(events.get(how) or TaskRefused(card=0, lease=name, code=how))

    @rule(name=leases, fails=st.booleans())
    def sent(self, name: LeaseId, fails: bool) -> None:
        failed = UploadFailed(lease=name, code="x", retry_s=1.0, is_final=False)
        self.tell(failed if fails else UploadDone(lease=name, state="checking"))

    @invariant()
    def nothing_is_forgotten(self) -> None:
        assert self.remembered == set(self.run.machine.model.leases)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
