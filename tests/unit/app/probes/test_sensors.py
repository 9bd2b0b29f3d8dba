"""The hardware monitor, from a tree like the kernel's."""

from __future__ import annotations

from pathlib import Path

from app.probes.sensors import monitors


def monitor(root: Path, name: str, files: dict[str, str], address: str = "") -> None:
    folder = root / f"hwmon{len(list(root.iterdir()))}"
    folder.mkdir()
    (folder / "name").write_text(f"{name}\n")
    for file, text in files.items():
        (folder / file).write_text(f"{text}\n")
    if address:
        device = root.parent / "devices" / address
        device.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(device)


def test_a_processor_by_its_package_and_a_card_by_its_parts(tmp_path: Path) -> None:
    root = tmp_path / "hwmon"
    root.mkdir()
    monitor(root, "coretemp", {
        "temp1_input": "61500", "temp1_label": "Package id 0", "temp2_input": "70000",
        "temp2_label": "Core 0",
    })  # fmt: skip
    monitor(root, "amdgpu", {
        "temp1_input": "55000", "temp1_label": "edge", "temp2_input": "71000",
        "temp2_label": "junction", "fan1_input": "1200", "power1_average": "123000000",
        "power1_cap": "250000000", "power1_cap_default": "303000000",
    }, "0000:03:00.0")  # fmt: skip
    monitor(root, "nct6775", {"temp1_input": "-128000"})
    cpu, gpu = monitors(root)
    assert [(each.label, each.part, each.temperature_c) for each in cpu.sensors] == [
        ("coretemp Package id 0", "processor", 62.0)
    ]
    assert (gpu.address, gpu.fan_rpm, gpu.power_w) == ("0000:03:00.0", 1200, 123.0)
    assert (gpu.limit_w, gpu.default_w) == (250.0, 303.0)
    assert [each.part for each in gpu.sensors] == ["core", "memory"]
    assert (cpu.power_w, cpu.limit_w, cpu.default_w) == (None, None, None)


def test_a_card_of_intel_names_its_limits_otherwise(tmp_path: Path) -> None:
    root = tmp_path / "hwmon"
    root.mkdir()
    monitor(root, "xe", {"power1_max": "180000000", "power1_rated_max": "225000000"})
    (told,) = monitors(root)
    assert (told.limit_w, told.default_w) == (180.0, 225.0)


def test_no_monitors_and_nonsense_in_them(tmp_path: Path) -> None:
    assert monitors(tmp_path / "nowhere") == ()
    root = tmp_path / "hwmon"
    root.mkdir()
    monitor(root, "k10temp", {"temp1_input": "hot", "temp2_input": "255000"})
    (told,) = monitors(root)
    assert [each.temperature_c for each in told.sensors] == [255.0]
