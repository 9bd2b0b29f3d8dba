"""A staged runtime, and launches from it, for the tests of the walls."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.sandbox.launch import WALLS, Walls, launch
from app.sandbox.process import EngineProcess
from app.sandbox.runtime import stage_files
from app.sandbox.spec import EngineLaunch, Level, Runtime
from gpugoblin.units import MIB
from tests.helpers.runtime_home import runtime_home

SELF_TEST = Walls(entry="app/sandbox/selftest.py")


@pytest.fixture(scope="session")
def open_home() -> Path:
    """A directory that every user can read, as an engine's own user must."""
    return runtime_home()


@pytest.fixture(scope="session")
def runtime(open_home: Path) -> Runtime:
    return stage_files(open_home / "runtime")


@contextmanager
def launched(
    runtime: Runtime, walls: Walls = SELF_TEST, level: Level = "full"
) -> Iterator[tuple[EngineProcess, socket.socket]]:
    """A running engine and our end of its channel; it is gone afterward."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arenas = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("input", "output")]
    ours.settimeout(20)
    process = None
    try:
        spec = EngineLaunch(
            runtime=runtime,
            control_fd=theirs.fileno(),
            input_fd=arenas[0],
            output_fd=arenas[1],
            input_bytes=4096,
            output_bytes=4096,
            threads=1,
            memory_bytes=256 * MIB,
            level=level,
        )
        started = launch(spec, walls)
        assert isinstance(started, EngineProcess)
        process = started
        theirs.close()
        yield process, ours
    finally:
        if process is not None:
            process.end()
        ours.close()
        theirs.close()
        for arena in arenas:
            os.close(arena)


Faker = Callable[[str], Walls]


@pytest.fixture
def fake_bwrap(open_home: Path) -> Iterator[Faker]:
    """Makes a program in bubblewrap's place out of a few lines of shell.

    It must belong to root, which only root can make, so other users skip these tests.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that the launch trusts")
    place = Path(tempfile.mkdtemp(dir=open_home))
    place.chmod(0o755)

    def make(lines: str) -> Walls:
        program = place / "bwrap"
        program.write_text(f"#!/bin/sh\n{lines}\n", encoding="ascii")
        program.chmod(0o755)
        return Walls(bwrap=program, entry=WALLS.entry)

    yield make
    shutil.rmtree(place)
