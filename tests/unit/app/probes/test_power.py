"""Supplies, from trees like the kernel's: who counts, and who does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.policy.snapshot import PowerFacts
from app.probes.power import PowerProbe, read_supplies

Tree = dict[str, dict[str, str]]
AC_ON = {"type": "Mains", "online": "1"}
AC_OFF = {"type": "Mains", "online": "0"}
FULL = {"type": "Battery", "present": "1", "status": "Full", "capacity": "97"}
DRAINS = {"type": "Battery", "present": "1", "status": "Discharging", "capacity": "40"}


@pytest.mark.parametrize(
    ("tree", "facts"),
    [
        ({}, PowerFacts()),
        ({"AC": AC_ON, "BAT0": FULL}, PowerFacts(battery_percent=97)),
        ({"AC": AC_OFF, "BAT0": DRAINS}, PowerFacts(True, 40)),
        # B#6468: the mains are off and there is no battery: it cannot run from one.
        ({"AC": AC_OFF}, PowerFacts()),
        # A laptop that is charged by USB only.
        ({"usb": {"type": "USB", "online": "1"}, "BAT0": FULL}, PowerFacts(battery_percent=97)),
        ({"BAT0": DRAINS}, PowerFacts(True, 40)),
        # A mouse's battery is not ours.
        ({"mouse": {**DRAINS, "scope": "Device"}}, PowerFacts()),
        ({"ups": {"type": "UPS", "status": "Discharging"}}, PowerFacts(on_ups=True)),
        ({"BAT0": {**DRAINS, "present": "0"}, "AC": AC_ON}, PowerFacts()),
        ({"BAT0": {**FULL, "capacity": "400"}}, PowerFacts()),
    ],
)
def test_supplies(tmp_path: Path, tree: Tree, facts: PowerFacts) -> None:
    for name, files in tree.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(f"{text}\n")
    assert read_supplies(tmp_path) == facts
    assert PowerProbe(tmp_path).look() == facts


def test_no_folder_is_no_battery(tmp_path: Path) -> None:
    assert read_supplies(tmp_path / "nowhere") == PowerFacts()
