"""The one real clock."""

from __future__ import annotations

import time

from gpugoblin.clock import Clock, SystemClock


def test_system_clock_follows_both_clocks_of_the_machine() -> None:
    clock: Clock = SystemClock()
    before_wall_s, before_monotonic_s = time.time(), time.monotonic()
    wall_s, monotonic_s = clock.wall_s(), clock.monotonic_s()
    assert before_wall_s <= wall_s <= time.time()
    assert before_monotonic_s <= monotonic_s <= time.monotonic()
