"""The launcher: what it starts stays, what ends at once is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil


def launch(log: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-m", "gpugoblin.client.launcher", str(log), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_process_outlives_its_launcher(tmp_path: Path) -> None:
    with launch(tmp_path / "log", "sleep", "60") as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        out, err = launcher.communicate()
    assert (out, err, launcher.returncode) == ("", "", 0)
    process = psutil.Process(pid)
    assert process.status() != psutil.STATUS_ZOMBIE
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)
    process.wait(10)


def test_a_process_that_ends_at_once_is_told(tmp_path: Path) -> None:
    with launch(tmp_path / "log", "sh", "-c", "echo said; exit 5") as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.read().split()[1:] == ["5"]
    assert (tmp_path / "log").read_text() == "said\n"
