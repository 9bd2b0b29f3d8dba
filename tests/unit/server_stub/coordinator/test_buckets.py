"""Token buckets in the database."""

from __future__ import annotations

from server_stub.coordinator.buckets import Rate, take_stored
from tests.helpers.coordinator import Desk


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
