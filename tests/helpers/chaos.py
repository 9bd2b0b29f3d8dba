"""kill -9 by a seeded schedule, while jobs run; then an account of what it did.

Owns: the schedule, the course of a run (strike, pause, start again, next round of jobs) and its
account. Must not: judge (`chaos_audit` does), or know how a process is found (`chaos_network`).
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tests.helpers import chaos_audit, chaos_client
from tests.helpers.chaos_audit import Fault, Verified
from tests.helpers.chaos_network import ChaosNetwork, Part
from tests.helpers.network_processes import patience

__all__ = ["WEIGHTS", "Account", "Chaos", "Strike", "schedule", "write_inputs"]

TICK_S: Final = 0.1
WEIGHTS: Final[Mapping[Part, int]] = {
    "client": 12,
    "node": 20,
    "check worker": 10,
    "validator": 12,
    "local worker": 10,
    "engine": 14,
    "agent": 14,
    "coordinator": 8,
}
"""One hundred kills, by part."""


@dataclass(frozen=True, slots=True)
class Strike:
    """SIGKILL to a process of `part`, `after_s` after the strike before it; its program is started
    again `pause_s` later (workers and engines are started again by their own parents)."""

    part: Part
    after_s: float
    pause_s: float


def schedule(
    seed: int, weights: Mapping[Part, int], *, gap_s: tuple[float, float], pause_s: float
) -> list[Strike]:
    """As many strikes at each part as its weight says, in an order and at times of the seed."""
    rng = random.Random(seed)
    parts = [part for part, weight in weights.items() for _ in range(weight)]
    rng.shuffle(parts)
    return [Strike(part, rng.uniform(*gap_s), rng.uniform(0.0, pause_s)) for part in parts]


def write_inputs(folder: Path, *, rows: int, inner: int, block_rows: int) -> None:
    """`x.npy` and `w.npy`: float32[rows, inner], `b.npy`: float32[block_rows, inner]; the same
    numbers every time."""
    rng = np.random.default_rng(rows)
    for name, count in (("x", rows), ("w", rows), ("b", block_rows)):
        np.save(folder / f"{name}.npy", rng.normal(size=(count, inner)).astype(np.float32))


@dataclass(slots=True)
class Account:
    """What a run did and found."""

    kills: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    jobs: int = 0
    tasks: int = 0
    wall_s: float = 0.0
    faults: list[Fault] = field(default_factory=list)


class Chaos:
    """One run. `calm` first, then `storm`, then `come_to_rest`; the account grows meanwhile.

    Args:
        programs: names in `chaos_client.PROGRAMS`.
        say: takes a line a strike.
    """

    def __init__(
        self,
        network: ChaosNetwork,
        programs: Sequence[str],
        seed: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.network = network
        self.account = Account()
        self._programs = tuple(programs)
        self._rng = random.Random(seed)
        self._say = say
        self._calm: dict[str, str] = {}
        self.seen: set[Verified] = set()
        self._due: list[tuple[float, str]] = []

    def calm(self) -> None:
        """Runs every program once, undisturbed; its bytes are what all later runs must give."""
        self._start_client("calm")
        self.network.programs.await_end("client")
        self._calm = {
            name: _digest(chaos_client.result_path(self.network.folder, "calm", name))
            for name in self._programs
        }

    def storm(self, strikes: Sequence[Strike], limit_s: float) -> None:
        """Carries out all strikes while round after round of jobs runs; ends with the last round.

        A part without a process just then (a worker starts with its first work) is struck a little
        later, and the next part that has one is struck instead.

        Raises:
            AssertionError: it did not end within `limit_s`.
        """
        start_s = time.monotonic()
        left = list(strikes)
        self._begin_round()
        next_s = start_s + left[0].after_s
        while True:
            now_s = time.monotonic()
            if now_s > start_s + limit_s:
                raise AssertionError(f"not over in {limit_s:.0f} s: {left}, {self._how_it_is()}")
            self._start_what_is_due(now_s)
            self.network.orphans.look(self.network.own_pids())
            if left and now_s >= next_s:
                struck = next((each for each in left if self._strike(each)), None)
                if struck is not None:
                    left.remove(struck)
                    next_s = time.monotonic() + (left[0].after_s if left else 0.0)
            if self._round_is_over():
                if not left and not self._due:
                    break
                if left:
                    self._begin_round()
            time.sleep(TICK_S)
        self.account.wall_s = time.monotonic() - start_s

    # -- strikes ---------------------------------------------------------------------------------

    def _strike(self, strike: Strike) -> bool:
        """False when no process of the part is there."""
        found = self.network.find(strike.part, self._rng)
        if found is None:
            return False
        name, pid = found
        self._remember()
        if pid == self.network.programs.pid(name):
            self.network.programs.kill(name)
            self._due.append((time.monotonic() + strike.pause_s, name))
        else:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
        self.account.kills[strike.part] += 1
        self._say(f"{strike.part}: killed {pid} of {name}")
        return True

    def _remember(self) -> None:
        """Notes what is verified just before a strike."""
        self.seen |= chaos_audit.verified_so_far(self.network.node_database)

    def _start_what_is_due(self, now_s: float) -> None:
        for moment_s, name in [due for due in self._due if due[0] <= now_s]:
            self._due.remove((moment_s, name))
            if name == "client":
                self._start_client(self._prefix)
            else:
                self.network.start_again(name)

    def _how_it_is(self) -> str:
        """For whoever looks into a run that does not end."""
        with closing(chaos_audit.read_only(self.network.node_database)) as database:
            jobs = database.execute(
                "select name, state, tasks, verified, used, error_text from job where used < tasks"
            ).fetchall()
            tasks = database.execute(
                "select t.job, t.number, t.state, t.verify, l.state, l.cause, l.device from task t"
                " left join lease l on l.task = t.id where t.state not in ('used', 'ready')"
            ).fetchall()
        logs = [self.network.programs.log(name)[-2000:] for name in self.network.programs.names()]
        return "\n".join([f"{self.account.kills} {jobs} {tasks}", *logs])

    # -- rounds ----------------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"round{self.account.rounds}"

    def _begin_round(self) -> None:
        self.account.rounds += 1
        self._start_client(self._prefix)

    def _start_client(self, prefix: str) -> None:
        words = [chaos_client.__file__, str(self.network.node_socket), str(self.network.folder)]
        self.network.programs.start("client", [*words, prefix, *self._programs])

    def _round_is_over(self) -> bool:
        """The client ends well only when all its jobs are done; anything else is a fault."""
        if "client" not in self.network.programs.names():
            return not any(name == "client" for _, name in self._due)
        if not self.network.has_ended("client"):
            return False
        try:
            self.network.programs.await_end("client")
        except AssertionError as error:
            self.account.faults.append(Fault("unfinished", str(error)[-600:]))
        return True

    # -- the account -----------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Waits for the receipts, ends all programs, and audits what is left.

        The node is started once more before, which must change nothing that anyone can see, and
        deletes what kills have left half made.
        """
        network = self.network
        self._await_receipts()
        network.end_all()
        diary = chaos_audit.diary(network.node_database)
        network.start_once_more()
        if chaos_audit.diary(network.node_database) != diary:
            self.account.faults.append(Fault("computed_again", "a start without work did some"))
        self.account.faults += self.compare_bytes()
        self.account.faults += chaos_audit.lost(frozenset(self.seen), network.node_database)
        self.account.faults += chaos_audit.audit_tasks(network.node_database)
        self.account.faults += chaos_audit.audit_credits(
            network.node_database, network.coordinator_database
        )
        self.account.faults += [Fault("orphan", words) for words in network.orphans.told.values()]
        self.account.faults += [
            Fault("surprise", f"{name}: {text}") for name, text in network.tracebacks()
        ]
        self.account.faults += [
            Fault("leftover", path) for path in network.leftovers(self.expected_files())
        ]
        with closing(chaos_audit.read_only(network.node_database)) as database:
            self.account.jobs, self.account.tasks = database.execute(
                "select count(*), sum(tasks) from job"
            ).fetchone()

    def _await_receipts(self) -> None:
        waiting = patience("all receipts are booked")
        while waiting():
            with closing(chaos_audit.read_only(self.network.node_database)) as database:
                open_receipts = database.execute(
                    "select count(*) from outbox where sent_s is null"
                ).fetchone()[0]
            if not open_receipts:
                return

    def expected_files(self) -> set[str]:
        prefixes = ["calm", *(f"round{number}" for number in range(1, self.account.rounds + 1))]
        folder = self.network.folder
        return {"x.npy", "w.npy", "b.npy"} | {
            chaos_client.result_path(folder, prefix, name).name
            for prefix in prefixes
            for name in self._programs
        }

    def compare_bytes(self) -> list[Fault]:
        faults = []
        for number in range(1, self.account.rounds + 1):
            for name, calm in self._calm.items():
                path = chaos_client.result_path(self.network.folder, f"round{number}", name)
                found = _digest(path) if path.exists() else "no file"
                if found != calm:
                    faults.append(Fault("bytes", f"{path.name}: {found}, undisturbed {calm}"))
        return faults


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
