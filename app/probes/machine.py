"""What the probes need to know of the agent and of where they are.

Owns: that table. Must not: gather anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.probes.polls import Polled

__all__ = ["RETRY_S", "Machine"]

RETRY_S: Final = (2.0, 5.0, 15.0, 60.0)
"""How long until what is away is tried again, at the first try and later."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the probes need to know of the agent and of where they are.

    Args:
        now_s: Unix seconds.
        disk: a folder on the disk of the cache.
        ours: processes that are ours.
        held: identities of the cards that this agent lends now.
        listed: the owner's names of programs.
        traffic: bytes of today and of this month.
        environment: of this process; read again at every connection.
        polled: the probes that look; None: those of this machine.
        delays_sleep: sleep waits until engines are gone.
        plugged: told that a card may have come or gone.
    """

    now_s: Callable[[], float]
    disk: Path
    ours: Callable[[], Iterable[int]]
    held: Callable[[], Iterable[str]]
    listed: Callable[[], Iterable[str]]
    traffic: Callable[[], tuple[int, int]]
    environment: Callable[[], Mapping[str, str]] = lambda: os.environ
    polled: tuple[Polled, ...] | None = None
    delays_sleep: bool = True
    plugged: Callable[[], None] = lambda: None
