"""From a card to its nodes: of this card alone, and a clear line where one is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.host.card_access import access_to
from app.host.cards import FoundCard
from app.sandbox.spec import CardAccess
from gpugoblin.errors import EngineError
from tests.unit.app.host.test_cards import CARD

AMD = FoundCard(**CARD)
NVIDIA = replace(AMD, vendor=0x10DE, name="H200")
GIB = 1 << 30


def machine(root: Path, *addresses: str) -> Path:
    """A file tree as the kernel shows it, for cards with render nodes 128, 129 and so on."""
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "dev/dri").mkdir(parents=True)
    for number, address in enumerate(addresses, start=128):
        place = root / "sys/devices/pci0000:00" / address
        for name in (f"card{number - 128}", f"renderD{number}"):
            (place / "drm" / name).mkdir(parents=True)
            (root / "dev/dri" / name).touch()
        (place / "drm" / f"renderD{number}" / "dev").write_text(f"226:{number}\n")
        os.symlink(place, root / "sys/bus/pci/devices" / address)
        told = root / "proc/driver/nvidia/gpus" / address
        told.mkdir(parents=True)
        (told / "information").write_text(f"Model: H200\nDevice Minor: \t {number - 128}\n")
        (root / f"dev/nvidia{number - 128}").touch()
    for name in ("nvidiactl", "nvidia-uvm"):
        (root / "dev" / name).touch()
    return root


def test_software_needs_nothing() -> None:
    assert access_to(replace(AMD, kind="software"), GIB) == CardAccess("software")


def test_a_card_of_the_kernels_graphics(tmp_path: Path) -> None:
    root = machine(tmp_path, "0000:00:02.0", "0000:01:00.0", "0000:02:00.0")
    found = access_to(AMD, GIB, root)
    place = "/sys/devices/pci0000:00/0000:01:00.0"
    assert found == CardAccess(
        "drm",
        nodes=("/dev/dri/renderD129",),
        shown=(place,),
        links=(
            (place, "/sys/bus/pci/devices/0000:01:00.0"),
            (f"{place}/drm/renderD129", "/sys/dev/char/226:129"),
        ),
        memory_bytes=GIB,
    )


def test_a_card_of_nvidia(tmp_path: Path) -> None:
    root = machine(tmp_path, "0000:00:02.0", "0000:01:00.0", "0000:02:00.0")
    found = access_to(NVIDIA, GIB, root)
    assert found.policy == "nvidia"
    assert found.nodes == (
        "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/dri/renderD129",
    )  # fmt: skip
    assert found.shown == ("/sys/devices/pci0000:00/0000:01:00.0", "/proc/driver/nvidia")


@pytest.mark.parametrize(
    ("card", "gone", "named"),
    [
        (AMD, "dev/dri/renderD128", "/dev/dri/renderD128"),
        (AMD, "sys/bus/pci/devices/0000:01:00.0", "0000:01:00.0"),
        (NVIDIA, "dev/nvidia-uvm", "/dev/nvidia-uvm"),
        (NVIDIA, "proc/driver/nvidia/gpus/0000:01:00.0/information", "information"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, card: Any, gone: str, named: str) -> None:
    root = machine(tmp_path, "0000:01:00.0")
    (root / gone).unlink()
    with pytest.raises(EngineError) as caught:
        access_to(card, GIB, root)
    assert caught.value.code == "card_node_missing"
    assert named in caught.value.what


def test_a_card_that_is_no_pci_device_has_no_nodes() -> None:
    with pytest.raises(EngineError) as caught:
        access_to(replace(AMD, address=""), GIB)
    assert caught.value.code == "card_node_missing"
