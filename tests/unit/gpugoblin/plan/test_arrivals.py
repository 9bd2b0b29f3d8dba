"""When a round ends, and what its step reads by the record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpugoblin.errors import PlanError
from gpugoblin.plan.arrivals import LEAST_S, Decided, deadline_s, in_time, is_over, late
from tests.simulation.late import rounds_plan

times = st.lists(st.floats(0, 1e5), min_size=1, max_size=40)


@given(times, st.floats(0, 1e5))
def test_a_deadline_is_after_the_middle_and_one_odd_arrival_moves_it_little(
    arrivals: list[float], odd: float
) -> None:
    found = deadline_s(arrivals)
    assert found >= sorted(arrivals)[(len(arrivals) - 1) // 2] + LEAST_S
    assert deadline_s([*arrivals, *arrivals, odd]) <= max(arrivals) * 8 + LEAST_S
    assert deadline_s([2 * one for one in arrivals]) <= 2 * found + 1e-9


def test_the_formula() -> None:
    assert deadline_s([10.0] * 8) == 12.5
    assert deadline_s([0.1] * 8) == pytest.approx(1.1)
    assert deadline_s([8.0, 9.0, 10.0, 11.0, 12.0]) == pytest.approx(10 + 4 * 1.4826)


def test_a_round_ends_with_all_or_after_its_deadline_with_a_quorum() -> None:
    arrivals = [10.0] * 8

    def over(here: str, waited_s: float, *, owes: bool = False, last: bool = False) -> bool:
        return is_over(here, 2, waited_s, arrivals, owes=owes, last=last)

    assert over("1111", 0.0)
    assert not over("1011", 12.4)
    assert over("1011", 12.6)
    assert not over("1000", 1e9)
    assert not over("1111", 1e9, owes=True)
    assert not over("1011", 1e9, last=True)
    assert over("1111", 0.0, last=True)


def test_masks() -> None:
    assert (in_time("1011"), late("1011"), late("")) == ((0, 2, 3), (1,), ())


def test_a_plan_goes_as_far_as_it_is_decided() -> None:
    plan = rounds_plan(3, 2, 1)
    nothing = Decided(plan, {}, 0)
    assert nothing.count == 2
    assert nothing.consumers(0) == (2,)
    assert (nothing.inputs, nothing.outputs) == (plan.inputs, plan.outputs)
    assert nothing.summary() == plan.summary()
    with pytest.raises(PlanError) as caught:
        nothing.task(2)
    assert caught.value.code == "plan_task_unknown"
    one = Decided(plan, {0: "01"}, 2)
    assert one.count == 5
    assert one.task(2).depends_on == (1,)
    assert one.task(3) == plan.task(3)
    both = Decided(plan, {0: "01", 1: "11"}, 5)
    assert both.task(5).depends_on == (0, 2, 3, 4)
    assert both.count == 8
    assert Decided(plan, {1: "11", 2: "11"}, 9).count == plan.count
    with pytest.raises(PlanError):
        both.task(9)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_every_shard_is_read_once(rounds: list[list[bool]]) -> None:
    masks = {
        turn: "".join("01"[one] for one in (some if any(some) else [True] * 3))
        for turn, some in enumerate(rounds)
    }
    masks[len(rounds)] = "111"
    plan = rounds_plan(len(masks), 3, 1)
    found = Decided(plan, masks, 0)
    assert found.count == plan.count
    read = [source for index in range(plan.count) for source in found.task(index).depends_on
            if (source + 1) % plan.round_tasks]  # fmt: skip
    assert sorted(read) == [n for n in range(plan.count) if (n + 1) % plan.round_tasks]
