"""A lab joins a coordinator and is looked at from there, with the real programs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from server_stub.coordinator.state import initialize
from server_stub.node.settings import load
from tests.helpers.chaos_lab import Lab
from tests.helpers.coordinator_process import Server
from tests.helpers.lab import free_port
from tests.helpers.network import NODE

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="gg-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def coordinator(root: Path) -> Iterator[Server]:
    initialize(root / "coordinator.toml", port=free_port())
    server = Server(root / "coordinator.toml")
    server.start()
    yield server
    assert server.end(signal.SIGTERM) == 0


def node(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", *NODE, *words, "--config", str(lab.config)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_lab_joins_and_is_told_whether_it_is_reached(root: Path, coordinator: Server) -> None:
    port = free_port()
    with Lab(root, listen_port=port, local_engine=False) as lab:
        address = f"https://127.0.0.1:{port}"
        at = ["--coordinator", coordinator.address, "--certificate", coordinator.sha256]
        words = ["register", *at, "--address", address, "--name", "lab-a"]
        before = lab.config.read_text()
        first = node(lab, *words)
        assert first.returncode == 3, first.stderr
        (line,) = (line for line in first.stdout.splitlines() if "lab add lab-a" in line)
        assert lab.config.read_text() == before
        made = coordinator.run(*line.split()[2:])
        other = node(lab, *words[:-4], "--address", "https://127.0.0.1:1")
        assert "[registered_otherwise]" in other.stderr
        assert lab.config.read_text() == before
        second = node(lab, *words)
        assert second.returncode == 0, second.stderr
        assert "reaches https://127.0.0.1" in second.stdout
        settings = load(lab.config)
        assert (settings.lab, settings.coordinator_key) == (made["lab"], made["coordinator_key"])
        assert settings.coordinator_address == coordinator.address
        lab.stop()
        doctor = node(lab, "doctor")
        assert doctor.returncode == 3
        assert f"does not reach {address}: nothing listens there" in doctor.stdout
        lab.start()
        doctor = node(lab, "doctor")
        assert f"well      the coordinator reaches {address}" in doctor.stdout
        assert "well      the clock is" in doctor.stdout
        assert "a second, synced" in doctor.stdout
        # Asked as quickly as a person would not: how many times fit depends on the machine.
        said = (node(lab, "doctor").stdout for _ in range(12))
        assert any("[coordinator_rate_limited]" in one for one in said)
