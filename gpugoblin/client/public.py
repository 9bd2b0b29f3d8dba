"""The functions of the package that concern jobs, on the session in use.

Owns: `gg.jobs`, `gg.get`, `gg.save`, `gg.compute`, `gg.estimate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from gpugoblin.capture.array import Array
from gpugoblin.capture.runner import CURRENT, PathLike, SubmitOptions
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client.job import Job
from gpugoblin.client.session import Session
from gpugoblin.client.views import PlanView
from gpugoblin.errors import ClientError

__all__ = ["compute", "estimate", "get", "jobs", "save"]


def jobs(everybody: bool = False) -> list[Job]:
    """All jobs of yours on the lab node, the newest first.

    Args:
        everybody: those that others share with you, too; for an administrator all jobs.

    Raises:
        ClientError: `not_connected`, `node_unreachable`.
    """
    return current_session().jobs(everybody)


def get(name: str) -> Job:
    """The job of a name, wherever and whenever it was submitted.

    Raises:
        RemoteError: the node has none of that name.
        ClientError: `not_connected`, `node_unreachable`.
    """
    return current_session().get(name)


def save(
    arrays: Array | Sequence[Array],
    path: PathLike | None = None,
    **options: Unpack[SubmitOptions],
) -> Job:
    """Submits one array, or several as one job; `job.arrays` has them in order.

    Args:
        path: where the first result goes; see `Array.save`, also for what is raised.
    """
    given = (arrays,) if isinstance(arrays, Array) else tuple(arrays)
    block_axis = given[0].block_axis if len(given) == 1 else None
    return current_session().save(given, path, block_axis, options)


def compute(
    *arrays: Array, timeout: float | None = None, **options: Unpack[SubmitOptions]
) -> tuple[NumpyArray, ...]:
    """Computes several arrays together, so that what they share is computed once."""
    return current_session().compute(arrays, timeout, None, options)


def estimate(*arrays: Array, **options: Unpack[SubmitOptions]) -> PlanView:
    """Tasks, bytes, memory, seconds and gain of a computation, before anything starts.

    Raises:
        RemoteError: the planner refuses it, with the reason.
        ClientError: `not_connected`, `node_unreachable`.
    """
    block_axis = arrays[0].block_axis if len(arrays) == 1 else None
    return current_session().estimate(arrays, block_axis, options)


def current_session() -> Session:
    """The session in use. Raises ClientError `not_connected`."""
    session = CURRENT.get()
    if not isinstance(session, Session):
        raise ClientError("not_connected")
    return session
