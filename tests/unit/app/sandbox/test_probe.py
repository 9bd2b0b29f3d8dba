"""The trial, its memory, and the list for the doctor."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.sandbox import probe as module
from app.sandbox.launch import Walls
from app.sandbox.probe import Health, doctor, probe, trial
from app.sandbox.spec import Level, Runtime
from gpugoblin.errors import SandboxError

from .conftest import SELF_TEST, Faker

HEALTH = Health("full", "0.8.0", 7, False, 80.0, ())


@pytest.mark.parametrize("level", ["full", "reduced"])
def test_walls_can_be_had_here(runtime: Runtime, level: Level) -> None:
    health = trial(runtime, level)
    assert health.level == level
    assert health.landlock_abi >= 1
    assert health.start_ms > 0
    assert bool(health.bwrap) is (level == "full")


def test_a_refusal_names_its_cause(runtime: Runtime, fake_bwrap: Faker) -> None:
    lines = (
        'case "$1" in --version) echo bubblewrap 0.8.0;; *) echo "overflowuid" >&2; exit 1;; esac'
    )
    with pytest.raises(SandboxError) as refusal:
        trial(runtime, "full", fake_bwrap(lines))
    assert refusal.value.code == "overflowuid_unreadable"


def test_an_old_program_is_not_even_tried(runtime: Runtime, fake_bwrap: Faker) -> None:
    with pytest.raises(SandboxError) as refusal:
        trial(runtime, "full", fake_bwrap("echo bubblewrap 0.4.0"))
    assert refusal.value.code == "bwrap_too_old"


def test_other_machines_are_refused() -> None:
    for system, machine in (("Darwin", "arm64"), ("Linux", "aarch64"), ("Windows", "AMD64")):
        with pytest.raises(SandboxError) as refusal:
            module._machine_supported(system, machine)
        assert refusal.value.code == "sandbox_machine_unsupported"
    module._machine_supported("Linux", "x86_64")


@pytest.mark.parametrize(
    ("report", "code"),
    [
        ({"code": "landlock_missing", "fields": {}}, "landlock_missing"),
        (
            {"code": "self_test_failed", "fields": {"action": "x", "outcome": "y"}},
            "self_test_failed",
        ),
        ({}, "sandbox_start_failed"),
        ({"landlock_abi": 7, "self_test": False}, "sandbox_start_failed"),
    ],
)
def test_what_the_engine_says_against_its_walls_is_believed(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, report: dict[str, object], code: str
) -> None:
    monkeypatch.setattr(module, "_report", lambda channel, process: report)
    with pytest.raises(SandboxError) as refusal:
        trial(runtime, "full")
    assert refusal.value.code == code


def test_an_engine_that_dies_is_heard(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SELF_TEST_ENTRY", "app/sandbox/not-there.py")
    with pytest.raises(SandboxError, match="not-there"):
        trial(runtime, "full")


def test_the_answer_is_remembered_until_something_changes(runtime: Runtime, tmp_path: Path) -> None:
    asked: list[Level] = []

    def count(_: Runtime, level: Level, walls: Walls) -> Health:
        asked.append(level)
        return replace(HEALTH, warnings=("landlock_partial",))

    first = probe(runtime, tmp_path, try_now=count)
    assert probe(runtime, tmp_path, try_now=count) == first
    assert asked == ["full"]
    probe(runtime, tmp_path, "reduced", try_now=count)
    probe(runtime, tmp_path, walls=Walls(bwrap=tmp_path / "none"), try_now=count)
    assert len(asked) == 3
    stored = tmp_path / "walls-full.json"
    for damage in (b"", b"[]", b"{}", json.dumps({"key": 1, "health": 2}).encode()):
        stored.write_bytes(damage)
        probe(runtime, tmp_path, try_now=count)
    assert len(asked) == 7


def test_a_refusal_is_not_remembered(runtime: Runtime, tmp_path: Path) -> None:
    def refuse(_: Runtime, level: Level, walls: Walls) -> Health:
        raise SandboxError("landlock_missing")

    for _ in range(2):
        with pytest.raises(SandboxError):
            probe(runtime, tmp_path, try_now=refuse)
    assert probe(runtime, tmp_path, try_now=lambda *_: HEALTH) == HEALTH


def test_a_state_directory_that_cannot_be_written_is_no_reason_to_refuse(
    runtime: Runtime, tmp_path: Path
) -> None:
    assert probe(runtime, tmp_path / "none", try_now=lambda *_: HEALTH) == HEALTH


def test_doctor_names_every_wall(runtime: Runtime) -> None:
    findings = doctor(runtime)
    assert [finding.wall for finding in findings] == [
        "bubblewrap",
        "limits",
        "Landlock",
        "all walls (full)",
        "without namespaces (reduced)",
    ]
    assert [finding for finding in findings if not finding.good] == []


def test_doctor_gives_the_fix(runtime: Runtime, tmp_path: Path) -> None:
    findings = doctor(runtime, replace(SELF_TEST, bwrap=tmp_path / "none"))
    assert [finding.good for finding in findings] == [False, True, True, False, True]
    assert findings[0].next_step == "Install it: sudo apt install bubblewrap"


@pytest.mark.parametrize(
    ("abi", "good", "said"),
    [
        (0, False, "no Landlock"),
        (2, True, "cannot close TCP, device commands, signals and abstract sockets"),
        (5, True, "cannot close signals and abstract sockets"),
        (6, True, "ABI 6"),
    ],
)
def test_what_landlock_lacks_is_reported(abi: int, good: bool, said: str) -> None:
    finding = module._finding("Landlock", lambda: module._landlock(lambda: abi))
    assert finding.good is good
    assert said in finding.said
