"""What happens to the contributors while the large job runs.

Owns: the order of events: one lies from the start, one is killed in the middle and starts again,
one leaves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gpugoblin as gg
from demo.network import CONTRIBUTORS, Network

__all__ = ["disturb"]

LIMIT_S = 100.0


def disturb(network: Network, job: gg.Job, say: Callable[[str], None]) -> None:
    """Kills a contributor after a fifth of the job, and lets another leave after two fifths."""
    by_name = {contributor.name: contributor for contributor in CONTRIBUTORS}
    _await_share(job, 0.2)
    network.processes.kill("machine-3")
    say("machine-3 was killed in the middle of its work (kill -9)")
    _await_share(job, 0.4)
    network.processes.terminate("machine-2")
    say("machine-2's owner took it back: it gave its tasks up and left")
    network.start_contributor(by_name["machine-3"])
    say("machine-3 came back")


def _await_share(job: gg.Job, share: float) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        info = job.refresh()
        if info.state != "running" or info.verified >= share * info.tasks:
            return
        time.sleep(0.2)
