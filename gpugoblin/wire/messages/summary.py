"""How a job goes, in all its figures: the researcher's client and the lab node.

Owns: the dialogue `job.summary`. The node computes these figures in one place; the client, the
commands and the node's pages only show them.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from gpugoblin.wire.bounds import Count, Seconds, Word
from gpugoblin.wire.messages.job import JobInfo
from gpugoblin.wire.registry import message

__all__ = ["Contributor", "JobSummary", "Stretch", "TaskCounts"]

Ratio = Annotated[float, Meta(ge=0, le=1e9)]


class TaskCounts(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks by state; together they are all of the plan. `ended`: failed or cancelled."""

    planned: Count
    waiting: Count
    ready: Count
    leased: Count
    checking: Count
    suspect: Count
    verified: Count
    used: Count
    ended: Count


class Contributor(Struct, frozen=True, forbid_unknown_fields=True):
    """What one owner's devices did, under the owner's pseudonym in this lab.

    Args:
        accepted, refused, lost, open: results that were verified, that the check refused, leases
            that came to nothing, and those that are under way.
        compute_s: of its engines, as they say, for what was accepted.
    """

    pseudonym: Word
    devices: Count
    accepted: Count
    refused: Count
    lost: Count
    open: Count
    compute_s: Seconds


class Stretch(Struct, frozen=True, forbid_unknown_fields=True):
    """Consecutive tasks of the plan: how many, and how many of them are verified, under way, ended
    without a result."""

    tasks: Count
    verified: Count
    working: Count
    ended: Count


@message("job.summary", sender="node", receiver="client", max_bytes=1024 * 1024)
class JobSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """A job as it stands, in all figures.

    Args:
        contributors: the most active first; `owners` counts all.
        stretches: the whole plan in order.
        elapsed_s: since it began, until it ended. remaining_s: at the rate of the last tasks.
        compute_s: of all engines together. rate_per_s: tasks verified in a second, lately.
        gain: how many times longer the lab node alone was estimated to take for what is verified.
        can_retry: it ended, and what it has verified is kept.
        at_s: when this was so.
    """

    info: JobInfo
    tasks: TaskCounts
    contributors: Annotated[tuple[Contributor, ...], Meta(max_length=100)]
    owners: Count
    stretches: Annotated[tuple[Stretch, ...], Meta(max_length=240)]
    elapsed_s: Seconds
    remaining_s: Seconds | None
    compute_s: Seconds
    rate_per_s: Ratio
    gain: Ratio
    can_retry: bool
    at_s: Seconds
