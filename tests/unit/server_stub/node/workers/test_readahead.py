"""What a read-ahead may take."""

from __future__ import annotations

from pathlib import Path

from server_stub.node.workers.readahead import room_bytes


def test_a_quarter_of_what_is_available(tmp_path: Path) -> None:
    facts = tmp_path / "meminfo"
    facts.write_text("MemTotal:   64000 kB\nMemAvailable:    8000 kB\nBuffers:   1 kB\n")
    assert room_bytes(facts) == 2000 * 1024


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:   64000 kB\n")
    assert room_bytes(tmp_path / "meminfo") == 0
    assert room_bytes(tmp_path / "nothing") == 0
