"""Terminals: real ones, also those that are opened later."""

from __future__ import annotations

import os
import pty
import time
from pathlib import Path

from app.probes.idle.terminals import TerminalProbe


def test_b1187_a_terminal_that_is_opened_later_counts(tmp_path: Path) -> None:
    """B#1187: "a terminal opened afterwards is not considered"."""
    devices = tmp_path / "dev"
    (devices / "pts").mkdir(parents=True)
    probe = TerminalProbe(time.time, devices)
    assert probe.look().last_input_s == 0.0
    parent, child = pty.openpty()
    try:
        name = os.ttyname(child)
        (devices / "pts" / Path(name).name).symlink_to(name)
        os.write(parent, b"typed\n")
        os.read(child, 10)
        typed_s = os.stat(name).st_atime
        assert probe.look().last_input_s == typed_s
    finally:
        os.close(parent)
        os.close(child)


def test_times_from_the_future_and_files_that_are_no_terminals(tmp_path: Path) -> None:
    (tmp_path / "pts").mkdir()
    (tmp_path / "tty1").write_text("no device")
    (tmp_path / "ttyS").write_text("x")
    assert TerminalProbe(lambda: 5.0, tmp_path).look().last_input_s == 0.0
    parent, child = pty.openpty()
    try:
        (tmp_path / "tty2").symlink_to(os.ttyname(child))
        assert TerminalProbe(lambda: 5.0, tmp_path).look().last_input_s == 5.0
    finally:
        os.close(parent)
        os.close(child)
