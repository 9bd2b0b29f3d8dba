"""Inputs that stay in the arena."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from app.host.arena import Arena
from gpugoblin.errors import VerifyError
from server_stub.node.workers.residents import Resident, Residents, Stopped

KIB = 1024


@pytest.fixture
def residents() -> Iterator[Residents]:
    lock = threading.Condition(threading.RLock())
    with Arena(64 * KIB, "input") as inputs, Arena(32 * KIB, "output") as outputs:
        yield Residents(inputs, outputs, lock, 32 * KIB)


def load(loaded: list[str]) -> object:
    def one(resident: Resident) -> None:
        loaded.append(resident.key)

    return one


def test_what_is_there_is_not_loaded_again(residents: Residents) -> None:
    loaded: list[str] = []
    first = residents.acquire("a", 8 * KIB, load(loaded))  # type: ignore[arg-type]
    again = residents.acquire("a", 8 * KIB, load(loaded))  # type: ignore[arg-type]
    assert first is again
    assert loaded == ["a"]
    assert residents.holds("a")


def test_the_oldest_unused_goes_first(residents: Residents) -> None:
    loaded: list[str] = []
    for key in "abcd":
        item = residents.acquire(key, 8 * KIB, load(loaded))  # type: ignore[arg-type]
        residents.end([item], [], begun=False)
    residents.end([residents.acquire("a", 8 * KIB, load(loaded))], [], begun=False)  # type: ignore[arg-type]
    residents.acquire("e", 8 * KIB, load(loaded))  # type: ignore[arg-type]
    assert not residents.holds("b")
    assert all(residents.holds(key) for key in "acde")
    assert residents.inputs.used_bytes == 32 * KIB


def test_one_item_may_need_more_than_the_cache(residents: Residents) -> None:
    loaded: list[str] = []
    for key in "ab":
        residents.acquire(key, 24 * KIB, load(loaded))  # type: ignore[arg-type]
    with pytest.raises(VerifyError) as caught:
        residents.acquire("c", 24 * KIB, load(loaded))  # type: ignore[arg-type]
    assert caught.value.code == "item_too_large"


def test_waits_for_items_under_way(residents: Residents) -> None:
    loaded: list[str] = []
    first = residents.acquire("a", 24 * KIB, load(loaded))  # type: ignore[arg-type]
    residents.begin()
    done = threading.Event()

    def second() -> None:
        residents.acquire("b", 24 * KIB, load(loaded))  # type: ignore[arg-type]
        done.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not done.wait(0.1)
    residents.end([first], [], begun=True)
    assert done.wait(10)
    thread.join()
    assert loaded == ["a", "b"]
    assert not residents.holds("a")


def test_outputs_wait_too(residents: Residents) -> None:
    slot = residents.output(32 * KIB)
    residents.begin()
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(residents.output(KIB)))
    thread.start()
    residents.end([], [slot], begun=True)
    thread.join(10)
    assert len(got) == 1
    with pytest.raises(VerifyError):
        residents.output(32 * KIB)


def test_stop_wakes_who_waits(residents: Residents) -> None:
    residents.output(32 * KIB)
    residents.begin()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            residents.output(KIB)
        except Stopped as stopped:
            raised.append(stopped)

    thread = threading.Thread(target=wait)
    thread.start()
    residents.stop()
    thread.join(10)
    assert len(raised) == 1


def test_failed_loads_leave_nothing(residents: Residents) -> None:
    def fail(resident: Resident) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        residents.acquire("a", KIB, fail)
    assert not residents.holds("a")
    assert residents.inputs.used_bytes == 0


def test_forgotten_ones_go_with_their_last_user(residents: Residents) -> None:
    loaded: list[str] = []
    item = residents.acquire("a", KIB, load(loaded))  # type: ignore[arg-type]
    residents.forget(item)
    assert residents.inputs.used_bytes > 0
    residents.end([item], [], begun=False)
    assert residents.inputs.used_bytes == 0
    other = residents.acquire("b", KIB, load(loaded))  # type: ignore[arg-type]
    residents.end([other], [], begun=False)
    residents.forget(other)
    assert residents.inputs.used_bytes == 0
