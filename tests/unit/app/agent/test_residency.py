"""Blobs in the input arena: once for all who need them, thrown out when nobody does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.agent.residency import Residency
from app.host.arena import Arena
from gpugoblin.errors import EngineError
from gpugoblin.ids import BlobHash, LeaseId

X, Y, Z = (BlobHash(letter * 64) for letter in "abc")
L1, L2 = LeaseId("lease_a"), LeaseId("lease_b")
PAGE = 4096


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(4 * PAGE, "input") as made:
        yield made


def test_a_blob_goes_in_once(arena: Arena) -> None:
    residency = Residency(arena)
    first, is_new = residency.take(X, PAGE, L1)
    again, is_new_again = residency.take(X, PAGE, L2)
    assert (is_new, is_new_again) == (True, False)
    assert first.slot == again.slot
    assert arena.used_bytes == PAGE


def test_what_nobody_needs_makes_room_and_the_oldest_goes_first(arena: Arena) -> None:
    residency = Residency(arena)
    residency.take(X, 2 * PAGE, L1)
    residency.take(Y, PAGE, L1)
    residency.release(L1)
    residency.take(Z, 2 * PAGE, L2)
    assert residency.take(Y, PAGE, L2)[1] is False
    residency.release(L2)
    assert residency.take(X, 2 * PAGE, L1)[1] is True


def test_what_is_needed_stays(arena: Arena) -> None:
    residency = Residency(arena)
    residency.take(X, 3 * PAGE, L1)
    with pytest.raises(EngineError) as caught:
        residency.take(Y, 2 * PAGE, L2)
    assert caught.value.code == "arena_full"
    residency.release(L1)
    residency.take(Y, 2 * PAGE, L2)


def test_a_blob_that_could_not_be_loaded_is_forgotten(arena: Arena) -> None:
    residency = Residency(arena)
    residency.take(X, PAGE, L1)
    residency.forget(X)
    residency.forget(X)
    assert arena.used_bytes == 0
    assert residency.take(X, PAGE, L1)[1] is True
