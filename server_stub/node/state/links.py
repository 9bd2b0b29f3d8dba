"""Measured links: what carrying a task took the lab's devices, by the lab's clock.

Owns: what the leases say about each device's link. Must not: decide who computes; a device's own
word about how long it computed is in here, so nothing that is verified may follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

from server_stub.node.state.rates import CLAIM_BYTES_PER_S, GRID_LEASES, GRID_LEAST_FLOPS, LEAST_S
from server_stub.node.store.protocol import Row, Tx

__all__ = ["ASSUMED", "LEAST_SAMPLES", "Link", "line", "measured"]

LEAST_SAMPLES: Final = 4
"""A device with fewer accepted results says nothing yet."""

NEWEST: Final = 32
"""Samples of a device that count: slopes are those of all pairs."""

LEAST_BYTES_PER_S: Final = 1e3


@dataclass(frozen=True, slots=True)
class Link:
    """The middle one of the devices' links.

    Args:
        devices: that were measured.
        latency_s: seconds of a task that pass whatever its size.
        bytes_per_s: inputs and results together. flops_per_s: while it computes; 0: not known.
    """

    devices: int
    latency_s: float
    bytes_per_s: float
    flops_per_s: float


ASSUMED: Final = Link(0, 0.2, 12.5e6, 0.0)
"""Volunteers of whom nothing is known: 100 Mbit/s, and four exchanges of 50 ms."""


def measured(tx: Tx) -> Link | None:
    """What the newest leases show; None: too few results are accepted yet.

    A task's way is the time from its lease, or from the device's result before it, to the arrival
    of its last byte, without the time that it was computed.
    """
    newest: dict[str, list[Row]] = {}
    for row in tx.rows(
        "select l.device, t.bytes_moved, t.flops, l.issued_s, l.uploaded_s, l.compute_s from lease"
        " l join task t on t.id = l.task where l.rowid > (select coalesce(max(rowid), 0) from"
        " lease) - ? and l.state = 'accepted' and l.uploaded_s is not null and l.grant_id != ''"
        " order by l.uploaded_s",
        (GRID_LEASES,),
    ):
        newest.setdefault(row[0], []).append(row)
    found = [_link(rows) for rows in newest.values() if len(rows) >= LEAST_SAMPLES]
    if not found:
        return None
    rates = [one.flops_per_s for one in found if one.flops_per_s]
    return Link(
        len(found),
        median(one.latency_s for one in found),
        median(one.bytes_per_s for one in found),
        median(rates) if rates else 0.0,
    )


def _link(rows: Sequence[Row]) -> Link:
    samples: list[tuple[int, float]] = []
    flops, computed_s, until_s = 0, 0.0, 0.0
    for _, nbytes, task_flops, issued_s, uploaded_s, compute_s in rows:
        whole_s = max(0.0, uploaded_s - max(issued_s, until_s))
        own_s = min(max(0.0, compute_s), whole_s)
        samples.append((nbytes, whole_s - own_s))
        until_s = max(until_s, uploaded_s)
        if task_flops >= GRID_LEAST_FLOPS:
            flops, computed_s = flops + task_flops, computed_s + own_s
    latency_s, bytes_per_s = line(samples[-NEWEST:])
    return Link(1, latency_s, bytes_per_s, flops / computed_s if computed_s >= LEAST_S else 0.0)


def line(samples: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Latency in seconds and bytes a second of ways of (bytes, seconds).

    The middle one of the slopes of all pairs, and of what then is left (H. Theil 1950, P. Sen
    1968): nearly a third of the ways may be of another kind. Ways of one size do not tell the two
    apart; they are all rate then.
    """
    slopes = [
        (one[1] - other[1]) / (one[0] - other[0])
        for one, other in combinations(samples, 2)
        if one[0] != other[0]
    ]
    if slopes:
        each_s = max(0.0, median(slopes))
    else:
        each_s = median(seconds for _, seconds in samples) / max(1, samples[0][0])
    rate = min(CLAIM_BYTES_PER_S, max(LEAST_BYTES_PER_S, 1.0 / max(each_s, 1e-12)))
    return max(0.0, median(seconds - nbytes * each_s for nbytes, seconds in samples)), rate
