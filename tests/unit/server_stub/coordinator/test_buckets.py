"""Token buckets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from server_stub.coordinator.buckets import Rate, RequestBuckets, refill, take_stored, wait_s
from tests.helpers.coordinator import Desk


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


def test_stored_buckets_are_looked_at_and_taken_from(desk: Desk) -> None:
    rate = Rate(0.1, 2)
    for _ in range(5):
        assert take_stored(desk.tx, 0.0, "code", "a", rate, 0.0) == 0.0
    assert [take_stored(desk.tx, 0.0, "code", "a", rate, 1.0) for _ in range(3)] == [0, 0, 10]
    assert take_stored(desk.tx, 0.0, "code", "b", rate, 1.0) == 0.0
    assert take_stored(desk.tx, 10.0, "code", "a", rate, 1.0) == 0.0


def test_full_buckets_leave_the_database(desk: Desk) -> None:
    rate = Rate(0.1, 3.0)
    for count in range(5):
        take_stored(desk.tx, 0.0, "letter", f"box {count}", rate, 1.0)
    take_stored(desk.tx, 0.0, "other", "box", rate, 1.0)
    take_stored(desk.tx, 29.0, "letter", "new", rate, 1.0)
    assert len(desk.tx.rows("SELECT 1 FROM rate_bucket")) == 7
    take_stored(desk.tx, 31.0, "letter", "newer", rate, 1.0)
    left = desk.tx.rows("SELECT scope, subject FROM rate_bucket ORDER BY scope, subject")
    assert left == [("letter", "new"), ("letter", "newer"), ("other", "box")]
