"""The machine and its cards: rulings, engines, failures, the end."""

from __future__ import annotations

import pytest

from app.agent.events import (
    AskedToEnd,
    CardFound,
    ContactReply,
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    Enrolled,
    ExchangeDone,
    ExchangeFailed,
    GrantNews,
    LeaseCancelled,
    LeaseOffered,
    LeaseRefused,
    Recalled,
    RulingChanged,
    TaskRefused,
    Tick,
    UploadsAwaited,
)
from app.agent.instructions import (
    CancelTask,
    Contact,
    Drained,
    DropGrant,
    End,
    Exchange,
    Fetch,
    ForgetLease,
    FreezeEngine,
    OpenGrant,
    Say,
    StartEngine,
    StopEngine,
    SubmitTask,
    ThawEngine,
    Upload,
)
from gpugoblin.errors import AgentError
from gpugoblin.ids import GrantId
from tests.helpers.machine_run import (
    FINISH,
    G1,
    G2,
    L1,
    L2,
    L3,
    L4,
    LAB,
    OTHER,
    PAUSE,
    RUN,
    Run,
    X,
    computing,
    news,
    no,
    of,
    offer,
    started,
)


def test_i1246_i1133_an_engine_is_measured_before_the_first_contact() -> None:
    run = Run()
    run.tell(CardFound(card=0, kind="cpu"), Enrolled(), RUN)
    assert of(run, StartEngine, card=0, lab=None)
    assert no(run, Contact)
    run.tell(EngineReady(card=0))
    assert of(run, Contact, holding=(), wants=(0,))


def test_a_grant_near_its_end_is_renewed() -> None:
    run = started()
    run.answer(wait_s=10_000.0)
    run.tell(Tick(), after_s=300.0)
    run.tell(ContactReply(grants=(), revoked=(), next_contact_s=3000.0))
    run.tell(Tick(), after_s=3000.0)
    assert of(run, Contact, holding=(G1,), wants=(0,))


def test_a_grant_for_an_unknown_card_is_ignored() -> None:
    run = started()
    stranger = GrantNews(G2, LAB, 5, 100.0, 8)
    run.tell(ContactReply(grants=(stranger,), revoked=(), next_contact_s=300.0))
    assert no(run, OpenGrant)


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


def test_a_cancelled_lease_leaves_the_engine() -> None:
    run = computing(L1)
    run.tell(LeaseCancelled(lease=L1))
    assert of(run, CancelTask, card=0, lease=L1)
    assert of(run, ForgetLease, lease=L1)


def test_nonsense_to_compute_counts_against_the_lab_and_not_the_card() -> None:
    run = computing(L1)
    run.tell(TaskRefused(card=0, lease=L1, code="graph_malformed", is_nonsense=True))
    assert of(run, Exchange, abandons=((L1, "engine_failed"),))
    assert run.machine.model.cards[0].failures == 0
    assert run.machine.model.grants[G1].faults == 1


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


def test_f266_f290_a_card_that_fails_three_times_rests() -> None:
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


def test_i1246_i1133_an_engine_that_cannot_start_asks_for_no_leases() -> None:
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


def test_i1436_after_a_restart_every_lease_is_given_back() -> None:
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
