"""What the state alone calls for, and when it next will."""

from __future__ import annotations

from app.agent.instructions import Exchange, Say
from app.agent.model import CardState, GrantState, LeaseState, Limits, Model
from app.agent.plan import extend, next_moment_s
from app.agent.transitions import Output
from gpugoblin.ids import GrantId, LabId, LeaseId

G = GrantId("grant_a")


def model(**fields: object) -> Model:
    made = Model(Limits(), now_s=100.0)
    made.cards[0] = CardState(0, "cpu", ruling="RUN", engine="ready", is_measured=True)
    made.grants[G] = GrantState(G, LabId("lab_a"), 0, 1000.0, 8)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def planned(made: Model) -> list[object]:
    output = Output("s")
    extend(made, output)
    return list(output.instructions)


def test_it_forgets_nothing_however_often_it_is_asked() -> None:
    made = model()
    assert any(isinstance(each, Exchange) for each in planned(made))
    assert planned(made) == []
    made.grants[G].asking = made.grants[G].wanting = 0
    assert any(isinstance(each, Exchange) for each in planned(made))


def test_nothing_after_the_end() -> None:
    assert planned(model(has_ended=True)) == []


def test_the_next_moment_is_the_first_that_lies_ahead() -> None:
    made = model()
    made.grants[G].ask_at_s = 100.0
    assert next_moment_s(made) == made.limits.unused_engine_s
    made.contact_at_s = 115.0
    assert next_moment_s(made) == 115.0
    lease = LeaseState(LeaseId("lease_a"), G, 0, 1, until_s=110.0)
    made.leases[lease.lease] = lease
    assert next_moment_s(made) == 110.0


def test_without_anything_it_sleeps_for_an_hour() -> None:
    assert next_moment_s(Model(Limits(), now_s=5.0)) == 3605.0


def test_a_grant_that_is_over_is_said() -> None:
    made = model(now_s=1000.0)
    said = [each.code for each in planned(made) if isinstance(each, Say)]
    assert said == ["grant_ended"]
    assert made.grants == {}
