"""Events in any order: the machine stays sound and forgets no lease."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.agent.events import (
    BlobFailed,
    BlobReady,
    CardFound,
    ContactReply,
    EngineDied,
    EngineDone,
    EngineReady,
    EngineStopped,
    Enrolled,
    Event,
    ExchangeDone,
    ExchangeFailed,
    LeaseCancelled,
    SubmitDeferred,
    TaskRefused,
    Tick,
    UploadDone,
    UploadFailed,
    UploadsAwaited,
)
from app.agent.instructions import (
    ForgetLease,
    RememberLease,
)
from gpugoblin.ids import BlobHash, GrantId, LabId, LeaseId
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
    Y,
    news,
    offer,
)


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
        refused = TaskRefused(card=0, lease=name, code=how, is_unfit=how == "does_not_fit")
        self.tell(events.get(how) or refused)

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
