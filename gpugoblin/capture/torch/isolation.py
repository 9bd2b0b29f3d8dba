"""A child process for one piece of work, so that what it spoils dies with it.

Owns: the fork, the deadline, and the bounded bytes that come back. Nothing is pickled: the work
returns bytes. The child has the parent's memory as it was, so a module from a notebook needs no
import and no copy; it leaves without running what the parent wants run at its end. Must not: be
used from a process that has threads which hold locks that the work needs.
"""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import Final

from gpugoblin.errors import CaptureError

__all__ = ["MAX_ANSWER_BYTES", "isolated"]

MAX_ANSWER_BYTES: Final = 4 << 30
_CHUNK_BYTES: Final = 1 << 20


def isolated(work: Callable[[], bytes], label: str, timeout_seconds: float) -> bytes:
    """What `work` returns, from a forked child.

    Raises:
        CaptureError: `capture_needs_fork`; `capture_died`, when the child ends without an answer,
            takes too long or answers with too much.
    """
    if not hasattr(os, "fork"):
        raise CaptureError("capture_needs_fork")
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # A process with threads is told not to fork; the child uses none of them.
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(work, writer)
    os.close(writer)
    try:
        answer = _read(reader, child, label, time.monotonic() + timeout_seconds)
    finally:
        os.close(reader)
        _end(child)
    if answer[:1] != b"+":
        raise CaptureError("capture_died", subject=label, how="without an answer")
    return answer[1:]


def _answer(work: Callable[[], bytes], writer: int) -> None:
    """The child's whole life. It never returns."""
    status = 1
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            # The program runs several times in here, and torch tells its own failures twice.
            os.dup2(silence, standard)
        answer = b"+" + work()
        view = memoryview(answer)
        while view:
            view = view[os.write(writer, view[:_CHUNK_BYTES]) :]
        status = 0
    finally:
        os._exit(status)


def _read(reader: int, child: int, label: str, deadline: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([reader], [], [], max(0.0, left))
        if not ready:
            os.kill(child, signal.SIGKILL)
            raise CaptureError("capture_died", subject=label, how="after its time was over")
        part = os.read(reader, _CHUNK_BYTES)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            os.kill(child, signal.SIGKILL)
            raise CaptureError("capture_died", subject=label, how="with too long an answer")
        parts.append(part)


def _end(child: int) -> None:
    """The child is gone, or soon is: it has closed its end of the pipe, or was killed."""
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        return
