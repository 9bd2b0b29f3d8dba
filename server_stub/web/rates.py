"""How much one sender may ask: so many at once, then so many a second.

Owns: the arithmetic of token buckets, those that are kept in memory, and what counts as one
sender: the network that an address lies in.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

__all__ = ["Rate", "RequestBuckets", "network_prefix", "refill", "wait_s"]

_IPV4_PREFIX: Final = 24
_IPV6_PREFIX: Final = 56
"""What one household or office usually gets; addresses within are one network."""

MAX_KNOWN: Final = 50_000
"""Buckets kept in memory; the longest unused leave first (they are full again anyway)."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` tokens at once, `per_s` of them come back each second."""

    per_s: float
    burst: float


def refill(level: float, elapsed_s: float, rate: Rate) -> float:
    """What a bucket with `level` holds `elapsed_s` later. A clock that went back adds nothing."""
    return min(rate.burst, level + max(0.0, elapsed_s) * rate.per_s)


def wait_s(level: float, rate: Rate) -> float:
    """Whole seconds until a bucket holds a token again; at least 1."""
    return max(1.0, math.ceil((1.0 - level) / rate.per_s))


class RequestBuckets:
    """Buckets by subject, in memory, bounded in number."""

    def __init__(self, rate: Rate, max_known: int = MAX_KNOWN) -> None:
        self._rate = rate
        self._max_known = max_known
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, subject: str, now_s: float) -> float:
        """Takes a token; 0.0, or the seconds to wait when there is none."""
        level, at_s = self._buckets.pop(subject, (self._rate.burst, now_s))
        level = refill(level, now_s - at_s, self._rate)
        refused_s = 0.0
        if level < 1.0:
            refused_s = wait_s(level, self._rate)
        else:
            level -= 1.0
        self._buckets[subject] = (level, now_s)
        if len(self._buckets) > self._max_known:
            self._buckets.popitem(last=False)
        return refused_s


def network_prefix(address: str) -> str:
    """The /24 or /56 that an address lies in; what is no address stands for itself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
        parsed = parsed.ipv4_mapped
    return str(ipaddress.ip_network((parsed, _IPV4_PREFIX), strict=False))
