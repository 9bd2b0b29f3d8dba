"""Waiting for a job, and what Ctrl-C means while waiting.

Owns: the poll, the patience with a node that is being started again, detaching and cancelling. The
job is on the lab node; nothing here can lose it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from gpugoblin.client.progress import Renderer
from gpugoblin.client.views import StatusView
from gpugoblin.errors import ClientError
from gpugoblin.wire.messages.job import JobInfo

__all__ = ["Detached", "Waitable", "wait_until_over"]

HELD_S: Final = 1.0
"""How long the node holds a request; also how often progress is drawn."""
PAUSE_S: Final = 0.05
PATIENCE_S: Final = 120.0
SECOND_PRESS_S: Final = 2.0


class Detached(KeyboardInterrupt):
    """Ctrl-C while waiting: this process goes its way, the job goes on."""


class Waitable(Protocol):
    """What waiting needs of a job."""

    @property
    def name(self) -> str: ...

    def poll(self, held_s: float) -> JobInfo: ...

    def reconnect(self) -> None: ...

    def cancel(self) -> None: ...

    def say(self, text: str) -> None: ...


def wait_until_over(
    job: Waitable,
    timeout_s: float | None,
    renderer: Renderer,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> JobInfo:
    """Polls until the job is done, failed or cancelled, and draws it meanwhile.

    Raises:
        ClientError: `job_timeout`; `node_unreachable` when the node stays away for two minutes.
        Detached: Ctrl-C; a second one within two seconds asks the node to cancel first.
    """
    try:
        return _poll(job, timeout_s, renderer, monotonic_s, sleep)
    except KeyboardInterrupt as press:
        pressed = press
    finally:
        renderer.close()
    _detach(job, sleep)
    raise Detached(f"detached from job {job.name!r}") from pressed


def _poll(
    job: Waitable,
    timeout_s: float | None,
    renderer: Renderer,
    monotonic_s: Callable[[], float],
    sleep: Callable[[float], None],
) -> JobInfo:
    deadline_s = float("inf") if timeout_s is None else monotonic_s() + timeout_s
    patient_until_s: float | None = None
    while True:
        left_s = deadline_s - monotonic_s()
        try:
            info = job.poll(max(0.0, min(HELD_S, left_s)))
            patient_until_s = None
        except ClientError as away:
            if away.code not in ("node_unreachable", "node_silent", "local_start_failed"):
                raise
            patient_until_s = patient_until_s or monotonic_s() + PATIENCE_S
            if monotonic_s() >= min(patient_until_s, deadline_s):
                raise
            sleep(HELD_S)
            job.reconnect()
            continue
        renderer.update(StatusView(info))
        if info.state in ("done", "failed", "cancelled"):
            return info
        if left_s <= 0:
            raise ClientError(
                "job_timeout",
                name=info.name,
                timeout_s=f"{timeout_s or 0.0:g}",
                verified=info.verified,
                tasks=info.tasks,
            )
        sleep(min(PAUSE_S, max(0.0, left_s)))


def _detach(job: Waitable, sleep: Callable[[float], None]) -> None:
    job.say(
        f"\ngpugoblin: detached. The job goes on; come back to it from anywhere with "
        f"gg.get({job.name!r}). Press Ctrl-C again within {SECOND_PRESS_S:g} s to cancel it."
    )
    try:
        sleep(SECOND_PRESS_S)
    except KeyboardInterrupt:
        job.cancel()
        job.say(f"gpugoblin: job {job.name!r} is being cancelled.")
