"""Waiting for a job, and what Ctrl-C means while waiting.

Owns: the poll, the patience with a node that is being started again, detaching and cancelling. The
job is on the lab node; nothing here can lose it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from gpugoblin.client.progress import Renderer
from gpugoblin.client.views import StatusView
from gpugoblin.errors import ClientError
from gpugoblin.wire.messages.job import JobInfo

__all__ = ["Detached", "Waitable", "wait_beside_others", "wait_until_over"]

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
    course = _Course(timeout_s, monotonic_s)
    try:
        while True:
            try:
                info = job.poll(course.held_s())
            except ClientError as error:
                course.away(error)
                sleep(HELD_S)
                job.reconnect()
                continue
            renderer.update(StatusView(info))
            if course.over(info):
                return info
            sleep(PAUSE_S)
    except KeyboardInterrupt:
        pass  # left here, so that no traceback of sockets hangs on what is raised below
    finally:
        renderer.close()
    raise Detached(_detach(job, sleep))


async def wait_beside_others(job: Waitable, renderer: Renderer) -> JobInfo:
    """As `wait_until_over`, without holding up the event loop; cancelling it detaches.

    Raises:
        ClientError: as `wait_until_over`.
    """
    course = _Course(None, time.monotonic)
    try:
        while True:
            try:
                info = await asyncio.to_thread(job.poll, course.held_s())
            except ClientError as error:
                course.away(error)
                await asyncio.sleep(HELD_S)
                await asyncio.to_thread(job.reconnect)
                continue
            renderer.update(StatusView(info))
            if course.over(info):
                return info
            await asyncio.sleep(PAUSE_S)
    finally:
        renderer.close()


class _Course:
    """How long a wait goes on, and how patient it is with a node that is away."""

    def __init__(self, timeout_s: float | None, monotonic_s: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._deadline_s = float("inf") if timeout_s is None else monotonic_s() + timeout_s
        self._patient_until_s: float | None = None
        self._left_s = float("inf")

    def held_s(self) -> float:
        """How long the node may hold the next answer."""
        self._left_s = self._deadline_s - self._monotonic_s()
        return max(0.0, min(HELD_S, self._left_s))

    def away(self, error: ClientError) -> None:
        """Raises `error` unless the node may still come back."""
        if error.code not in ("node_unreachable", "node_silent", "local_start_failed"):
            raise error
        now_s = self._monotonic_s()
        if self._patient_until_s is None:
            self._patient_until_s = now_s + PATIENCE_S
        if now_s >= min(self._patient_until_s, self._deadline_s):
            raise error

    def over(self, info: JobInfo) -> bool:
        """Whether the job has ended; raises `job_timeout` when the time has."""
        self._patient_until_s = None
        if info.state in ("done", "failed", "cancelled"):
            return True
        if self._left_s <= 0:
            raise ClientError(
                "job_timeout",
                name=info.name,
                timeout_s=f"{self._timeout_s or 0.0:g}",
                verified=info.verified,
                tasks=info.tasks,
            )
        return False


def _detach(job: Waitable, sleep: Callable[[float], None]) -> str:
    """Waits for a second press; says what became of the job."""
    try:
        job.say(
            f"\ngpugoblin: detached. The job goes on; come back to it from anywhere with "
            f"gg.get({job.name!r}). Press Ctrl-C again within {SECOND_PRESS_S:g} s to cancel it."
        )
        sleep(SECOND_PRESS_S)
    except KeyboardInterrupt:
        job.cancel()
        job.say(f"gpugoblin: job {job.name!r} is being cancelled.")
        return f"job {job.name!r} is being cancelled"
    return f"detached from job {job.name!r}, which goes on"
