"""Summaries of jobs for tests, made up around a job's own figures."""

from __future__ import annotations

from typing import Any

from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.messages.summary import Contributor, JobSummary, Stretch, TaskCounts

__all__ = ["summary_of"]


def summary_of(info: JobInfo, **fields: Any) -> JobSummary:
    """A summary in which one owner computed all that is verified."""
    left = info.tasks - info.verified
    given: dict[str, Any] = {
        "info": info,
        "tasks": TaskCounts(left, 0, 0, 0, 0, 0, 0, info.verified, 0),
        "contributors": (Contributor("owner_a", 2, info.verified, 0, 0, 0, 1.5),),
        "owners": 1, "stretches": (Stretch(info.tasks, info.verified, 0, 0),), "elapsed_s": 2.0,
        "remaining_s": None, "compute_s": 1.5, "rate_per_s": 0.0, "gain": 1.5,
        "can_retry": info.state in ("failed", "cancelled"), "at_s": info.created_s + 2.0,
    }  # fmt: skip
    return JobSummary(**{**given, **fields})
