"""Waiting: until the end, no longer than asked, through a node's absence, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import gpugoblin as gg
from gpugoblin.client.job import Job
from gpugoblin.client.session import Session
from gpugoblin.client.views import StatusView
from gpugoblin.client.waiting import PATIENCE_S, Detached, wait_until_over
from gpugoblin.errors import ClientError
from gpugoblin.wire.messages.job import JobInfo
from tests.helpers.fake_node import FakeNode


class Seen:
    """A renderer that remembers."""

    def __init__(self) -> None:
        self.verified: list[int] = []
        self.closed = 0

    def update(self, status: StatusView) -> None:
        self.verified.append(status.verified)

    def close(self) -> None:
        self.closed += 1


class Scripted:
    """A job whose answers are a list; an exception in it is raised."""

    name = "gram"

    def __init__(self, answers: list[JobInfo | BaseException]) -> None:
        self.answers = answers
        self.held: list[float] = []
        self.said: list[str] = []
        self.cancelled = 0
        self.reconnected = 0

    def poll(self, held_s: float) -> JobInfo:
        self.held.append(held_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def reconnect(self) -> None:
        self.reconnected += 1

    def cancel(self) -> None:
        self.cancelled += 1

    def say(self, text: str) -> None:
        self.said.append(text)


class Clock:
    """Time passes only in sleeps."""

    def __init__(self, on_sleep: Callable[[], None] | None = None) -> None:
        self.now_s = 0.0
        self.on_sleep = on_sleep

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s
        if self.on_sleep:
            self.on_sleep()


def away() -> ClientError:
    return ClientError("node_unreachable", address="x", reason="gone")


@pytest.fixture
def info(lab: Session, node: FakeNode) -> JobInfo:
    node.hold = True
    job = gg.array([1, 2, 3]).sum().save(name="gram")
    assert isinstance(job, Job)
    return job.info


def finished(info: JobInfo) -> JobInfo:
    return msgspec.structs.replace(info, state="done", verified=4)


def test_it_ends_when_the_job_does(info: JobInfo) -> None:
    job, seen, clock = Scripted([info, info, finished(info)]), Seen(), Clock()
    assert wait_until_over(job, None, seen, monotonic_s=clock, sleep=clock.sleep).state == "done"
    assert seen.verified == [1, 1, 4]
    assert seen.closed == 1


def test_it_waits_no_longer_than_asked(info: JobInfo) -> None:
    job, clock = Scripted([info]), Clock()
    with pytest.raises(ClientError) as caught:
        wait_until_over(job, 1.5, Seen(), monotonic_s=clock, sleep=clock.sleep)
    assert caught.value.code == "job_timeout"
    assert "gg.get('gram')" in caught.value.next_step
    assert "1 of 4 tasks" in caught.value.what
    assert 1.4 < clock.now_s < 1.7
    assert max(job.held) <= 1.0


def test_no_time_at_all_asks_once(info: JobInfo) -> None:
    job, clock = Scripted([info]), Clock()
    with pytest.raises(ClientError, match="job_timeout"):
        wait_until_over(job, 0, Seen(), monotonic_s=clock, sleep=clock.sleep)
    assert job.held == [0.0]


def test_a_node_that_is_started_again_is_waited_for(info: JobInfo) -> None:
    job, clock = Scripted([info, away(), away(), finished(info)]), Clock()
    wait_until_over(job, None, Seen(), monotonic_s=clock, sleep=clock.sleep)
    assert job.reconnected == 2


def test_patience_has_an_end(info: JobInfo) -> None:
    job, clock = Scripted([away()]), Clock()
    with pytest.raises(ClientError, match="node_unreachable"):
        wait_until_over(job, None, Seen(), monotonic_s=clock, sleep=clock.sleep)
    assert PATIENCE_S <= clock.now_s < PATIENCE_S + 5


def test_other_errors_are_not_waited_for(info: JobInfo) -> None:
    wrong = ClientError("node_not_trusted", address="x", reason="y")
    with pytest.raises(ClientError, match="node_not_trusted"):
        wait_until_over(Scripted([wrong]), None, Seen(), sleep=Clock().sleep)


def test_one_press_detaches(info: JobInfo) -> None:
    job, seen, clock = Scripted([info, KeyboardInterrupt()]), Seen(), Clock()
    with pytest.raises(Detached, match="which goes on") as caught:
        wait_until_over(job, None, seen, monotonic_s=clock, sleep=clock.sleep)
    assert caught.value.__cause__ is caught.value.__context__ is None  # one short traceback
    assert "gg.get('gram')" in job.said[0]
    assert job.cancelled == 0
    assert seen.closed == 1


def test_a_second_press_cancels(info: JobInfo) -> None:
    def press() -> None:
        if job.said:
            raise KeyboardInterrupt

    job, clock = Scripted([info, KeyboardInterrupt()]), Clock(press)
    with pytest.raises(Detached, match="is being cancelled"):
        wait_until_over(job, None, Seen(), monotonic_s=clock, sleep=clock.sleep)
    assert job.cancelled == 1
    assert "being cancelled" in job.said[-1]


PROGRAM = """
import signal, sys
import gpugoblin as gg
# Where the tests run in the background of a shell, it would be ignored from the start.
signal.signal(signal.SIGINT, signal.default_int_handler)
gg.connect(sys.argv[1])
job = gg.array([1, 2, 3]).sum().save(name="long")
print("waiting", flush=True)
job.wait()
"""


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_in_a_real_process(node: FakeNode, presses: int, tmp_path: Path) -> None:
    node.hold = True
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, node.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert process.stdout.readline() == "waiting\n"
        while not any(request.startswith("GET /v1/jobs/job") for request in node.requests):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        heard = ""
        while "gg.get('long')" not in heard:
            line = process.stderr.readline()
            assert line, heard
            heard += line
        if presses == 2:
            os.kill(process.pid, signal.SIGINT)
        heard += process.stderr.read()
    assert process.returncode != 0
    assert "Detached" in heard
    assert node.job("long").info.state == ("cancelled" if presses == 2 else "running")
