"""What probes need to know has defaults that are those of this process."""

from __future__ import annotations

import os
from pathlib import Path

from app.probes.machine import RETRY_S, Machine


def test_by_default_it_is_this_process() -> None:
    machine = Machine(lambda: 0.0, Path("/"), list, list, list, lambda: (0, 0))
    assert machine.environment() is os.environ
    assert (machine.polled, machine.delays_sleep) == (None, True)
    machine.plugged()


def test_what_is_away_is_tried_again_later_and_later() -> None:
    assert list(RETRY_S) == sorted(set(RETRY_S))
