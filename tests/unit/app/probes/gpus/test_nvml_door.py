"""NVIDIA's library is opened once for all, and anew when its driver is another one."""

from __future__ import annotations

import threading

import pytest

from app.probes.gpus.nvml_door import LOST_PERIOD_S, MOST_OPENINGS, NvmlDoor, door_of
from tests.helpers.fake_nvml import FakeCard, FakeNvml


@pytest.fixture
def library() -> FakeNvml:
    return FakeNvml([FakeCard("GPU-a", "00000000:01:00.0")])


def error(library: FakeNvml, value: int) -> Exception:
    return library.NVMLError("x", value)


def test_it_is_opened_once(library: FakeNvml) -> None:
    door = door_of(library)
    assert door_of(library) is door
    assert (door.open(), door.open(), library.users) == (1, 1, 1)


@pytest.mark.parametrize("value", [1, 9, 15, 16])
def test_a_driver_that_is_gone_is_opened_anew(library: FakeNvml, value: int) -> None:
    door = NvmlDoor(library)
    opening = door.open()
    library.nvmlInit()  # another part of the process has opened it too
    library.reload(15)
    assert door.renew(opening, error(library, value))
    assert library.users == 0
    assert door.open() == 2
    assert library.nvmlDeviceGetTemperature(library.cards[0], 0) == 50


@pytest.mark.parametrize("value", [2, 3, 6, 999])
def test_other_errors_say_nothing_of_the_driver(library: FakeNvml, value: int) -> None:
    door = NvmlDoor(library)
    assert not door.renew(door.open(), error(library, value))
    assert not door.renew(door.open(), ValueError("of something else"))
    assert library.users == 1


def test_who_comes_second_closes_nothing(library: FakeNvml) -> None:
    door = NvmlDoor(library)
    first = door.open()
    assert door.renew(first, error(library, 9))
    second = door.open()
    assert door.renew(first, error(library, 9))  # it is worth asking again, and it is open
    door.shut(first)
    assert (second, library.users, library.opened) == (2, 1, 2)
    door.shut(second)
    assert library.users == 0


def test_a_card_that_is_lost_for_good_closes_it_now_and_then_only(library: FakeNvml) -> None:
    now_s = [0.0]
    door = NvmlDoor(library, lambda: now_s[0])
    lost = error(library, 15)
    assert door.renew(door.open(), lost)
    assert not door.renew(door.open(), lost)
    assert library.opened == 2
    now_s[0] = LOST_PERIOD_S
    assert door.renew(door.open(), lost)
    assert door.open() == 3


def test_a_library_that_counts_on_for_ever_ends(library: FakeNvml) -> None:
    library.users = 10 * MOST_OPENINGS
    door = NvmlDoor(library)
    door.shut(door.open())
    assert library.users > 0


def test_threads_share_one_opening(library: FakeNvml) -> None:
    threads = [threading.Thread(target=lambda: door_of(library).open()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.opened == 1


def test_an_error_without_a_number_says_nothing(library: FakeNvml) -> None:
    door = NvmlDoor(library)
    nameless = library.NVMLError("x")
    del nameless.value
    assert not door.renew(door.open(), nameless)
