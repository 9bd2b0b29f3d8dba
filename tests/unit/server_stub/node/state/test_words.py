"""Ids and effects of a step."""

from __future__ import annotations

import random

import msgspec

from gpugoblin.wire.bounds import LeaseIdField
from server_stub.node.state.words import JobChanged, Rules, Step

__all__: list[str] = []


def step(seed: int = 1) -> Step:
    return Step(None, 1.0, random.Random(seed), Rules("c" * 64))  # type: ignore[arg-type]


def test_ids_are_ids_of_the_wire_and_follow_the_random_source() -> None:
    one, again = step(), step()
    made = [one.fresh_id("lease") for _ in range(200)]
    for lease in made:
        assert msgspec.convert(lease, LeaseIdField) == lease
    assert len(set(made)) == 200
    assert made == [again.fresh_id("lease") for _ in range(200)]


def test_near_ids_of_a_step_begin_alike_and_are_ids_of_their_own() -> None:
    one = step()
    made = [one.near_id("lease") for _ in range(200)]
    for lease in made:
        assert msgspec.convert(lease, LeaseIdField) == lease
    assert len({lease[-22:] for lease in made}) == 200
    assert len({lease[:10] for lease in made}) == 1
    assert step(2).near_id("lease")[:10] != made[0][:10]
    assert step().near_id("lease") == step().fresh_id("lease") == made[0]


def test_an_effect_is_kept_once() -> None:
    one = step()
    one.emit(JobChanged("j"))
    one.emit(JobChanged("j"))
    one.emit(JobChanged("k"))
    assert one.effects == [JobChanged("j"), JobChanged("k")]
