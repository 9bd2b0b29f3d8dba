"""Energy: the card's own counter, its power, the package's counter, an estimate; said which."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.agent.energy import CARD_W, THREAD_W, EnergyMeter, read_rapl_uj


def test_a_card_by_its_counter_its_power_or_an_estimate() -> None:
    meter = EnergyMeter(False)
    assert meter.sample(10.0, 5.0, None, 1_000) == (CARD_W * 5 / 3600, "estimate")
    assert meter.sample(10.0, 5.0, 99.0, 3_601_000) == (1.0, "nvml")
    assert meter.sample(36.0, 5.0, 100.0, 0) == (1.0, "nvml")  # the driver began anew
    assert meter.sample(36.0, 5.0, 100.0, None) == (1.0, "nvml")


def test_a_processor_by_its_package_and_the_share_that_was_lent() -> None:
    readings = iter([0, 7_200_000_000, None])
    meter = EnergyMeter(True, 2, 4, lambda: next(readings))
    meter.sample(0.0, 0.0, None, None)
    assert meter.sample(10.0, 5.0, None, None) == (pytest.approx(0.5), "rapl")
    assert meter.sample(10.0, 5.0, None, None) == (THREAD_W * 2 * 5 / 3600, "estimate")


def test_no_interval_is_longer_than_it_can_be() -> None:
    meter = EnergyMeter(False)
    assert meter.sample(1e9, 1e9, None, None)[0] == CARD_W * 600 / 3600
    assert meter.sample(-5.0, 9.0, None, None)[0] == 0.0


def test_counters_of_all_packages(tmp_path: Path) -> None:
    assert read_rapl_uj(tmp_path) is None
    for number, text in enumerate(("5", "7")):
        (tmp_path / f"intel-rapl:{number}").mkdir()
        (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text(text)
    assert read_rapl_uj(tmp_path) == 12
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert read_rapl_uj(tmp_path) is None
