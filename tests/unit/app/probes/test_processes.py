"""Games by their processes: every launcher that is known, and what is no game."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.probes.processes import ProcessProbe, game_of
from tests.helpers.agent_network import eventually

REAPER = "/home/o/.steam/ubuntu12_32/reaper\0SteamLaunch\0AppId=620\0--\0/game/portal2.sh"


@pytest.mark.parametrize(
    ("command", "game"),
    [
        (REAPER, "Steam app 620"),
        ("/usr/bin/gamescope\0-W\0001920\0--\0x", "gamescope game"),
        ("python3\0/usr/share/lutris/bin/lutris-wrapper\0Quake", "Lutris game"),
        ("/opt/heroic/legendary\0launch\0Fortnite", "Heroic game"),
        ("/opt/heroic/legendary\0list", ""),
        ("/usr/lib/wine/wineserver64", "Wine game"),
        ("C:\\Games\\Quake\\quake.exe\0-window", "quake.exe"),
        ("/usr/lib/pressure-vessel/pv-bwrap\0--args", "Proton game"),
        ("vim\0SteamLaunch AppId=620", ""),
        ("/usr/bin/python3\0train.py", ""),
        ("", ""),
        ("\0" * 5000, ""),
    ],
)
def test_command_lines(command: str, game: str) -> None:
    assert game_of(command.encode()) == game


@contextmanager
def running(*words: str) -> Iterator[int]:
    """A process whose command line is as the test wants it."""
    code = "import sys; sys.stdin.read()"
    process = subprocess.Popen(
        [words[0], "-c", code, *words[1:]], executable=sys.executable, stdin=subprocess.PIPE
    )
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def test_a_game_that_starts_is_seen_and_one_that_ends_is_gone() -> None:
    probe = ProcessProbe(lambda: [])
    before = probe.look().games
    with running("reaper", "SteamLaunch", "AppId=424242"):
        eventually(lambda: "Steam app 424242" in probe.look().games)
    eventually(lambda: probe.look().games == before)


def test_the_owners_list_by_the_name_of_the_file() -> None:
    probe = ProcessProbe(lambda: ["my-renderer"])
    assert probe.look().listed == ()
    with running("/opt/x/my-renderer"):
        eventually(lambda: probe.look().listed == ("my-renderer",))


def test_only_new_processes_are_read(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"x\0")
    probe = ProcessProbe(lambda: [], tmp_path)
    probe.look()
    (tmp_path / "7" / "cmdline").write_bytes(REAPER.encode())
    assert probe.look().games == ("Steam app 620",)  # it had not its name yet
    (tmp_path / "7" / "cmdline").write_bytes(b"x\0")
    assert probe.look().games == ("Steam app 620",)


def test_a_proc_that_cannot_be_listed_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        ProcessProbe(lambda: [], tmp_path / "nowhere").look()
