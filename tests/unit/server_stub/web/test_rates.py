"""Token buckets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server_stub.web.rates import Rate, RequestBuckets, network_prefix, refill, wait_s


def test_a_burst_and_then_the_rate() -> None:
    buckets = RequestBuckets(Rate(per_s=2.0, burst=3))
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert buckets.take("b", 0.0) == 0.0
    assert buckets.take("a", 0.5) == 0.0
    assert buckets.take("a", 0.5) == 1.0


def test_memory_is_bounded() -> None:
    buckets = RequestBuckets(Rate(1.0, 1), max_known=10)
    for number in range(100):
        buckets.take(str(number), 0.0)
    assert len(buckets._buckets) == 10


def test_waiting_as_told_suffices() -> None:
    rate = Rate(per_s=0.3, burst=2)
    buckets = RequestBuckets(rate)
    now_s = 0.0
    for _ in range(20):
        told = buckets.take("a", now_s)
        if told:
            now_s += told
            assert buckets.take("a", now_s) == 0.0


@settings(max_examples=100, deadline=None, database=None)
@given(
    steps=st.lists(st.floats(-5, 5), max_size=50),
    per_s=st.floats(0.1, 10),
    burst=st.integers(1, 10),
)
def test_never_more_than_burst_and_rate_allow(steps: list[float], per_s: float, burst: int) -> None:
    buckets, now_s, highest_s, taken = RequestBuckets(Rate(per_s, burst)), 0.0, 0.0, 0
    forward_s = 0.0
    for change in steps:
        now_s += change
        forward_s += max(0.0, change)
        highest_s = max(highest_s, now_s)
        taken += buckets.take("a", now_s) == 0.0
    assert taken <= burst + forward_s * per_s + 1e-6


def test_arithmetic() -> None:
    rate = Rate(2.0, 5.0)
    assert refill(1.0, 1.0, rate) == 3.0
    assert refill(1.0, 100.0, rate) == 5.0
    assert refill(1.0, -100.0, rate) == 1.0
    assert wait_s(0.0, Rate(0.1, 1)) == 10.0
    assert wait_s(0.99, rate) == 1.0


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("192.0.3.77", "192.0.3.0/24"),
        ("::ffff:192.0.2.9", "192.0.2.0/24"),
        ("2001:db8:1:2ff::1", "2001:db8:1:200::/56"),
        ("2001:db8:1:300::1", "2001:db8:1:300::/56"),
        ("fe80::1%eth0", "fe80::/56"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_prefixes(address: str, prefix: str) -> None:
    assert network_prefix(address) == prefix
