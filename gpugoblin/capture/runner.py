"""Who computes lazy arrays: the border between expressions and sessions.

Owns: the protocols that a session and its jobs fulfil, and the one place that holds the session in
use. That place is the only state of the process that the package has: `a.compute()` names no
session. Must not: import the client; a session puts itself here when it connects.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Sequence
from typing import Any, Final, Protocol, TypedDict

from gpugoblin.capture.expression import Value
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.errors import ClientError

__all__ = ["CURRENT", "Current", "Lazy", "PathLike", "Runner", "RunningJob", "SubmitOptions"]

PathLike = str | os.PathLike[str]


class SubmitOptions(TypedDict, total=False):
    """How a job is run. Every one has a default.

    Keys:
        name: the job's name; the same name and content attaches to the job that is there.
        overwrite: replace a job of this name, and a file at the path, that differ.
        executor: `auto`, `local` or `grid`.
        numeric_class: `exact` (bit-identical everywhere), `float32`, or `tf32`, `bfloat16`,
            `float16`, `int8`, which round the operands of products and convolutions; by itself
            `exact` when only integers are computed, else `float32`.
        assurance: `full` or `audited`.
        where: what a card must have, from `gg.where(min_memory=...)`.
        priority: from -100 to 100; more is sooner.
        parent: name or id of a job of yours; cancelling that one cancels this one.
        force: run it on the grid although the estimate says that this is slower.
        retention: `durable` (by itself): the node keeps the results until the job is deleted;
            `cache`: until it needs the space or nobody has read them for long. Submitted again, a
            job whose results are gone is computed again.
    """

    name: str | None
    overwrite: bool
    executor: str
    numeric_class: str | None
    assurance: str
    where: object
    priority: int
    parent: str
    force: bool
    retention: str


class Lazy(Protocol):
    """What a session needs of an array: the expression that it stands for."""

    @property
    def value(self) -> Value: ...


class RunningJob(Protocol):
    """What `save` returns: a job that lives on the lab node.

    It is a `gpugoblin.client.job.Job`; this is the part of it that expressions may know.
    """

    @property
    def name(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def attached(self) -> bool: ...

    @property
    def array(self) -> Any: ...

    @property
    def arrays(self) -> tuple[Any, ...]: ...

    def wait(self, timeout: float | None = None) -> RunningJob: ...

    def __await__(self) -> Generator[Any, None, Any]: ...

    def plan(self) -> Any: ...

    def progress(self) -> Any: ...

    def output(self, number: int) -> Any: ...

    def cancel(self) -> None: ...

    def delete(self) -> None: ...

    def certificate(self) -> Any: ...

    def events(self, after: int = 0) -> Any: ...


class Runner(Protocol):
    """What `Array.save`, `Array.compute` and `gg.estimate` need of a session."""

    def save(
        self,
        arrays: Sequence[Lazy],
        path: PathLike | None,
        block_axis: int | None,
        options: SubmitOptions,
    ) -> RunningJob: ...

    def compute(
        self,
        arrays: Sequence[Lazy],
        timeout: float | None,
        block_axis: int | None,
        options: SubmitOptions,
    ) -> tuple[NumpyArray, ...]: ...


class Current:
    """The session in use: the last one that connected and has not been closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runners: list[Runner] = []

    def enter(self, runner: Runner) -> None:
        with self._lock:
            self._runners.append(runner)

    def leave(self, runner: Runner) -> None:
        with self._lock:
            self._runners = [known for known in self._runners if known is not runner]

    def get(self) -> Runner:
        """The session in use.

        Raises:
            ClientError: `not_connected`.
        """
        with self._lock:
            if not self._runners:
                raise ClientError("not_connected")
            return self._runners[-1]


CURRENT: Final = Current()
