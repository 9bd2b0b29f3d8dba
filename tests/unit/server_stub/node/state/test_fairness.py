"""Turns between users: nobody starves, nobody with work waits longer than the own fair share."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_stub.node.state.fairness import SCALE, Lane, Turns, cost_of

__all__: list[str] = []


@dataclass
class Mix:
    """Users who come and go with tasks of all sizes, and one row of turns, kept as a node would."""

    weights: dict[int, int]
    tags: dict[int, tuple[int, int]] = field(default_factory=dict)
    virtual: int = 0
    stamp: int = 0

    def turn(self, queues: dict[int, deque[int]]) -> tuple[int, int]:
        """The next turn: whose it is, and its cost."""
        waiting = [number for number, queue in queues.items() if queue]
        turns = Turns(
            [Lane(n, self.weights[n], *self.tags.get(n, (0, 0))) for n in waiting],
            self.virtual,
            self.stamp,
        )
        first = turns.order()[0]
        cost = queues[first].popleft()
        turns.charge(first, cost)
        if turns.changed():
            self.virtual, self.stamp = turns.virtual, turns.stamp
        self.tags |= {lane.number: (lane.tag, lane.stamp) for lane in turns.changed()}
        return first, cost


def play(seed: int) -> None:
    """One mix. Checks after every turn that nobody with work lags by more than what is promised."""
    rng = random.Random(seed)
    users = range(1, rng.randint(2, 20) + 1)
    equal = rng.random() < 0.5
    weights = {user: 1 if equal else rng.choice((1, 1, 2, 5)) for user in users}
    sizes = (100,) if rng.random() < 0.5 else (1, 10, 100, 1000)
    mix = Mix(weights)
    queues: dict[int, deque[int]] = {user: deque() for user in users}
    left = {user: rng.randint(1, 40) for user in users}
    due: dict[int, float] = {}
    waits: dict[int, int] = dict.fromkeys(users, 0)
    while any(left.values()) or any(queues.values()):
        for user in users:
            if left[user] and (rng.random() < 0.2 or not any(queues.values())):
                count = rng.randint(1, left[user])
                left[user] -= count
                if not queues[user]:
                    due[user], waits[user] = 0.0, 0
                queues[user].extend(rng.choice(sizes) for _ in range(count))
        waiting = [user for user in users if queues[user]]
        total = sum(weights[user] for user in waiting)
        first, cost = mix.turn(queues)
        for user in waiting:
            due[user] += cost * weights[user] / total
            waits[user] = 0 if user == first else waits[user] + 1
        due[first] -= cost
        for user in waiting:
            # What is due and not given, by the theorem: one task of the own and one of each of the
            # others at their weights; and one for those who came and went meanwhile.
            others = len(users) - 1
            share = weights[user] / (weights[user] + others)
            assert due[user] <= max(sizes) * (2 + others * share) + len(users) / SCALE, (seed, user)
            if equal and len(sizes) == 1:
                # Between two turns of a user each of the others has one at most.
                assert waits[user] < len(users), (seed, user)


SLOW = [pytest.param(part, marks=pytest.mark.slow) for part in range(1, 4)]


@pytest.mark.parametrize("part", [0, *SLOW])
def test_nobody_starves_in_a_thousand_mixes(part: int) -> None:
    for seed in range(part, 1000, 4):
        play(seed)


def test_twenty_users_with_two_hundred_jobs_come_round_and_round() -> None:
    mix = Mix({user: 1 for user in range(1, 21)})
    # The first user came with all of the jobs but one for each of the others.
    queues = {user: deque([100] * (181 if user == 1 else 1)) for user in range(1, 21)}
    order = [mix.turn(queues)[0] for _ in range(200)]
    assert sorted(order[:20]) == list(range(1, 21))


def test_weights_are_shares() -> None:
    mix = Mix({1: 1, 2: 3})
    queues = {1: deque([7] * 400), 2: deque([7] * 400)}
    order = [mix.turn(queues)[0] for _ in range(400)]
    assert abs(order.count(2) - 300) <= 2


def test_large_tasks_buy_no_more_than_small_ones() -> None:
    mix = Mix({1: 1, 2: 1})
    queues = {1: deque([1000] * 500), 2: deque([10] * 5000)}
    spent = {1: 0, 2: 0}
    for _ in range(2000):
        user, cost = mix.turn(queues)
        spent[user] += cost
    assert abs(spent[1] - spent[2]) <= 1010


def test_who_was_away_has_no_arrears_and_no_debt() -> None:
    mix = Mix({1: 1, 2: 1, 3: 1})
    queues = {1: deque([5] * 100), 2: deque([5] * 100), 3: deque[int]()}
    for _ in range(100):
        mix.turn(queues)
    queues[3] = deque([5] * 100)
    order = [mix.turn(queues)[0] for _ in range(30)]
    assert [order.count(user) for user in (1, 2, 3)] == [10, 10, 10]
    alone = {3: queues[3]}
    for _ in range(50):
        mix.turn(alone)
    order = [mix.turn(queues)[0] for _ in range(30)]
    assert [order.count(user) for user in (1, 2, 3)] == [10, 10, 10]


@given(
    tags=st.lists(st.integers(0, 1 << 61), min_size=2, max_size=30),
    virtual=st.integers(0, 1 << 61),
    cost=st.integers(1, 1 << 43),
)
def test_time_never_goes_back_and_a_turn_costs_something(
    tags: list[int], virtual: int, cost: int
) -> None:
    turns = Turns(
        [Lane(number, 1 + number % 7, tag) for number, tag in enumerate(tags)], virtual, 0
    )
    first = turns.order()[0]
    turns.charge(first, cost)
    assert turns.virtual >= virtual
    (lane,) = turns.changed()
    assert lane.tag > max(tags[first], virtual) - 1
    assert lane.tag - max(tags[first], virtual) == max(1, cost * SCALE // lane.weight)
    turns.leave(first)
    assert first not in turns.order()
    assert turns.changed() == [lane]


def test_a_task_costs_what_it_takes_most_of() -> None:
    assert cost_of(10**12, 0) == 10**6
    assert cost_of(10**12, 10**11) == 10**7
    assert cost_of(0, 0) == 1


def test_a_lane_that_had_nothing_for_one_may_have_something_for_the_next() -> None:
    turns = Turns([Lane(1), Lane(2)], 0, 0)
    turns.leave(1)
    assert turns.order() == [2]
    turns.again()
    assert turns.order() == [1, 2]
    assert turns.alone() is None
    assert Turns([Lane(7)], 0, 0).alone() == 7
    assert Turns((), 0, 0).alone() is None
