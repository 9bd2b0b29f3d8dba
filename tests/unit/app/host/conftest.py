"""Engines for tests: liars in real processes, and a launcher that starts them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.host.spec import HostSpec, Launcher
from app.sandbox.plain import PlainProcess, installed_runtime
from app.sandbox.spec import EngineLaunch

LIAR = Path(__file__).with_name("liar.py")


def liar_launcher(kind: str) -> Launcher:
    def launch(spec: EngineLaunch) -> PlainProcess:
        return PlainProcess(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(LIAR), kind, str(spec.control_fd)],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(spec.control_fd, spec.input_fd, spec.output_fd),
            )
        )

    return launch


@pytest.fixture
def lying() -> Callable[[str], Launcher]:
    return liar_launcher


@pytest.fixture
def host_spec() -> HostSpec:
    return HostSpec(
        runtime=installed_runtime(),
        input_bytes=1 << 20,
        output_bytes=1 << 20,
        threads=1,
        memory_bytes=1 << 20,
        level="none",
    )
