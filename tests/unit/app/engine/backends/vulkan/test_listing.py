"""The child that lists one driver's cards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.engine.backends.vulkan import listing
from app.host.cards import listing_environment
from gpugoblin.errors import EngineError
from tests.helpers.software_card import only_software


def listed(registration: Path) -> tuple[int, str]:
    told = subprocess.run(
        [sys.executable, "-I", "-m", listing.__name__],
        env=listing_environment(registration), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    return told.returncode, told.stdout


def test_a_software_card_is_described() -> None:
    status, text = listed(Path(only_software().cards[0].driver_file))
    assert status == 0
    card = json.loads(text)[0]
    assert (card["kind"], card["address"], card["unsuited"]) == ("software", "", "")
    assert "matmul@1" in card["operators"]
    assert card["shared_bytes"] >= 16384


def test_a_driver_that_is_not_there_has_no_card(tmp_path: Path) -> None:
    only_software()
    path = tmp_path / "none.json"
    path.write_text('{"file_format_version": "1.0.0", "ICD": {"library_path": "/none.so"}}')
    assert listed(path) == (0, "[]\n")


def test_what_cannot_be_computed_on_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    only_software()
    from app.engine.backends.vulkan import device
    from app.engine.backends.vulkan.instance import Instance

    def refuses(card: object) -> None:
        raise EngineError("card_unsuited", card="X", missing="shaderInt64")

    monkeypatch.setattr(device, "Device", refuses)
    instance = Instance()
    try:
        told = listing._described(instance.cards()[0])
    finally:
        instance.close()
    assert "shaderInt64" in told["unsuited"]
    assert "operators" not in told


def test_a_driver_that_hangs_does_not_outlive_who_asked() -> None:
    only_software()
    program = (
        "import runpy, signal, time; from app.engine.backends.vulkan import instance;"
        "instance.Instance = lambda: time.sleep(600);"
        "real = signal.alarm; signal.alarm = lambda limit_s: real(min(limit_s, 1));"
        f"runpy.run_module({listing.__name__!r}, run_name='__main__')"
    )
    told = subprocess.run([sys.executable, "-I", "-c", program], check=False, timeout=30)
    assert told.returncode == -signal.SIGALRM
