"""NVML, by a library that answers as the driver does: users, lost cards, silent ones."""

from __future__ import annotations

from typing import Any

import pytest

from app.policy.snapshot import ForeignUse, Sensor
from app.probes.gpus.nvml import Nvml, load_nvml
from gpugoblin.units import GIB
from tests.helpers.fake_nvml import FakeCard, FakeNvml

NAMES = {7: "train.py", 8: "Xorg", 9: "engine"}


def looked(library: FakeNvml) -> Any:
    return Nvml(library, lambda: [9], lambda pid: NAMES.get(pid, ""))


def test_everything_that_a_card_tells() -> None:
    card = FakeCard("GPU-a", "00000000:01:00.0", compute={7: 8 * GIB, 9: GIB}, graphics={8: GIB},
                    busy={7: 97})  # fmt: skip
    (seen,) = looked(FakeNvml([card])).look()
    assert (seen.uuid, seen.address, seen.energy_mj) == ("GPU-a", "0000:01:00.0", 1000)
    assert seen.facts.sensors == (Sensor("core", "core", 50.0),)
    assert seen.facts.foreign == (ForeignUse("train.py", 8 * GIB, 97.0),)
    assert (seen.facts.memory_used_bytes, seen.facts.power_w) == (9 * GIB, 30)


def test_a_card_that_does_not_tell_is_unknown() -> None:
    (seen,) = looked(FakeNvml([FakeCard("GPU-a", "00000000:01:00.0", is_silent=True)])).look()
    assert (seen.facts.sensors, seen.facts.foreign) == (None, None)


def test_f252_f301_a_card_that_the_driver_loses_says_so_and_comes_back() -> None:
    """F#252, F#301: cards that vanish after hours."""
    cards = [FakeCard("GPU-a", "00000000:01:00.0"), FakeCard("GPU-b", "00000000:02:00.0")]
    library = FakeNvml(cards)
    nvml = looked(library)
    assert len(nvml.look()) == 2
    cards[1].is_lost = True
    lost = nvml.look()[1]
    assert (lost.uuid, lost.facts.trouble) == ("GPU-b", "its driver has lost it")
    cards[1].is_lost = False
    assert nvml.look()[1].facts.trouble == ""


def test_a_driver_that_was_reset_is_opened_anew() -> None:
    library = FakeNvml([FakeCard("GPU-a", "00000000:01:00.0")])
    nvml = looked(library)
    nvml.look()
    library.is_down = True
    with pytest.raises(library.NVMLError):
        nvml.look()
    library.is_down = False
    assert len(nvml.look()) == 1
    assert library.opened == 2


@pytest.mark.parametrize("error", [1, 9, 15, 16])
def test_a_driver_that_was_reloaded_is_seen_at_the_next_look(error: int) -> None:
    """The count comes from what was opened before, and the cards do not."""
    library = FakeNvml([FakeCard("GPU-a", "00000000:01:00.0", limit_mw=200_000)])
    nvml = looked(library)
    (before,) = nvml.look()
    assert (before.facts.limit_w, before.facts.default_w) == (200.0, 350.0)
    library.reload(error)
    assert [card.facts.trouble for card in nvml.look()] == ["its driver has lost it"]
    (after,) = nvml.look()
    assert (after.facts.trouble, after.facts.limit_w) == ("", 350.0)
    assert (library.opened, library.users) == (2, 1)


def test_without_a_driver_the_library_is_not_loaded(tmp_path: Any) -> None:
    assert load_nvml(tmp_path / "nowhere") is None
