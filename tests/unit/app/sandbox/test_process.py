"""A running engine's handle."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from app.sandbox.spec import Level, Runtime
from gpugoblin.errors import SandboxError

from .conftest import launched


@pytest.mark.parametrize("level", ["full", "reduced"])
def test_it_is_proven_when_its_walls_stand(runtime: Runtime, level: Level) -> None:
    with launched(runtime, level=level) as (process, channel):
        channel.recv(4096)
        proof = process.attest()
        assert (proof.level, proof.engine_pid) == (level, process.engine_pid)


def test_it_is_ended_when_they_do_not(runtime: Runtime) -> None:
    with launched(runtime) as (process, _):
        os.kill(process.engine_pid, signal.SIGSTOP)  # long before its second filter
        with pytest.raises(SandboxError, match=r"Seccomp_filters is [01], not 2") as refusal:
            process.attest()
        assert refusal.value.code == "engine_unconfined"
        assert process.wait(10) == -signal.SIGKILL


def test_a_dead_one_cannot_be_proven(runtime: Runtime) -> None:
    with launched(runtime) as (process, _):
        process.end()
        with pytest.raises(SandboxError) as refusal:
            process.attest()
        assert refusal.value.code == "process_unprobed"


@pytest.mark.parametrize("level", ["full", "reduced"])
def test_after_its_end_no_process_is_left(runtime: Runtime, level: Level) -> None:
    with launched(runtime, level=level) as (process, channel):
        channel.recv(4096)
        pids = process.pids
        assert len({pids.top, pids.first, pids.engine}) == (3 if level == "full" else 1)
        assert process.wait(0.0) is None
        process.kill()
        process.kill()
        assert process.wait(10) == -signal.SIGKILL
        assert [pid for pid in (pids.top, pids.first, pids.engine) if _alive(pid)] == []
        assert process.wait(0.0) == -signal.SIGKILL
        process.kill()


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_its_descriptor_tells_its_end(runtime: Runtime) -> None:
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        waiter = select.poll()
        waiter.register(process, select.POLLIN)
        assert waiter.poll(0) == []
        channel.close()
        assert waiter.poll(10_000)
        assert process.wait(10) == 0


@pytest.mark.parametrize("which", ["top", "first", "engine"])
def test_whichever_process_ends_takes_the_others_along(runtime: Runtime, which: str) -> None:
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        pids = process.pids
        os.kill(getattr(pids, which), signal.SIGKILL)
        assert process.wait(10) is not None
        assert [pid for pid in (pids.top, pids.first, pids.engine) if _alive(pid)] == []


def test_its_last_words_are_kept_to_a_limit(runtime: Runtime) -> None:
    """The pipe of its errors is written to from outside, as a noisy engine would."""
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        with open(f"/proc/{process.engine_pid}/fd/2", "wb", buffering=0) as pipe:
            for _ in range(100):
                pipe.write(b"x" * 4095 + b"\n")
            pipe.write(b"the end\xff")
        deadline_s = time.monotonic() + 10
        while not process.stderr_tail().endswith("the end\N{REPLACEMENT CHARACTER}"):
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        assert len(process.stderr_tail()) <= 64 * 1024


def test_a_stuck_outer_process_is_ended_too(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.sandbox import process as module

    monkeypatch.setattr(module, "STUCK_S", 0.05)
    with launched(runtime) as (process, channel):
        channel.recv(4096)
        os.kill(process.pid, signal.SIGSTOP)
        process.kill()
        assert process.wait(0.0) is None
        deadline_s = time.monotonic() + 10
        while (status := process.wait(0.1)) is None:
            assert time.monotonic() < deadline_s
        assert status == -signal.SIGKILL
