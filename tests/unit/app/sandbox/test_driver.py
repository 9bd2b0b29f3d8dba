"""A driver's files are found behind its registration, or it is said what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.sandbox import driver
from app.sandbox.driver import REGISTRATION, VENDOR, card_environment, driver_files
from gpugoblin.errors import EngineError
from tests.helpers.software_card import only_software


def registered(tmp_path: Path, library: object) -> Path:
    path = tmp_path / "some_icd.json"
    path.write_text(json.dumps({"ICD": {"library_path": library, "api_version": "1.3.1"}}))
    return path


def test_the_software_driver_with_its_loader_and_binding() -> None:
    files = {each.target: each for each in driver_files(Path(only_software().cards[0].driver_file))}
    assert "system/libvulkan.so.1" in files
    assert {"app/vulkan/__init__.py", "app/vulkan/_vulkan.py"} <= set(files)
    assert any(target.startswith("app/_cffi_backend") for target in files)
    text = files[REGISTRATION].text
    assert text is not None
    library = json.loads(text)["ICD"]["library_path"]
    assert "/" not in library
    assert f"system/{library}" in files


def test_a_library_beside_the_registration(tmp_path: Path) -> None:
    only_software()
    (tmp_path / "libvulkan_x.so").touch()
    targets = [each.target for each in driver_files(registered(tmp_path, "./libvulkan_x.so"))]
    assert "system/libvulkan_x.so" in targets


def test_nvidia_brings_what_it_opens_by_name_and_of_its_version_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_software()
    monkeypatch.setattr(driver, "_PLACES", (str(tmp_path), *driver._PLACES))
    (tmp_path / "libEGL.so.1").touch()
    for name in (
        "libGLX_nvidia.so.580.1", "libnvidia-glcore.so.580.1", "libnvidia-gpucomp.so.580.1",
        "libnvidia-glcore.so.570.9", "libnvidia-encode.so.580.1",
        "libEGL_nvidia.so.580.1",
    ):  # fmt: skip
        (tmp_path / name).touch()
    (tmp_path / "libGLX_nvidia.so.0").symlink_to("libGLX_nvidia.so.580.1")
    library = str(tmp_path / "libGLX_nvidia.so.0")
    files = {each.target: each for each in driver_files(registered(tmp_path, library))}
    targets = set(files)
    vendor = json.loads(files[VENDOR].text or b"")["ICD"]["library_path"]
    assert files[f"system/{vendor}"].source.name == "libEGL_nvidia.so.580.1"
    told = card_environment("/runtime", "nvidia", 1)
    assert told["__EGL_VENDOR_LIBRARY_FILENAMES"] == f"/runtime/{VENDOR}"
    assert {
        "system/libGLX_nvidia.so.0", "system/libnvidia-glcore.so.580.1",
        "system/libnvidia-gpucomp.so.580.1", "system/libEGL.so.1",
    } <= targets  # fmt: skip
    assert "system/libnvidia-glcore.so.570.9" not in targets
    assert "system/libnvidia-encode.so.580.1" not in targets


@pytest.mark.parametrize("library", ["/nowhere/libx.so", "libnowhere_at_all.so", "", 7])
def test_what_is_missing_is_said(tmp_path: Path, library: object) -> None:
    with pytest.raises(EngineError) as caught:
        driver_files(registered(tmp_path, library))
    assert caught.value.code == "card_driver_missing"
    assert "apt install" in caught.value.next_step


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ICD": 3}', "\x00"])
def test_a_registration_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(EngineError) as caught:
        driver_files(path)
    assert caught.value.code == "card_driver_missing"


def test_one_driver_no_layer_no_cache() -> None:
    told = card_environment("/runtime", "software", 3)
    assert told["VK_DRIVER_FILES"] == told["VK_ICD_FILENAMES"] == f"/runtime/{REGISTRATION}"
    assert told["VK_LOADER_LAYERS_DISABLE"] == "*"
    assert told["LP_NUM_THREADS"] == "3"
    assert "LP_NUM_THREADS" not in card_environment("/runtime", "drm", 3)
