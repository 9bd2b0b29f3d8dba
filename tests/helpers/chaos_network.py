"""The network of the chaos tests: which processes can be hit, how each is started again.

Owns: the parts by name, finding their processes, and the watch for orphans. While it is entered,
this process adopts what a killed program leaves behind, so that an orphan is seen and never lost.
"""

from __future__ import annotations

import ctypes
import os
import random
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

import psutil

from gpugoblin.units import MIB
from tests.helpers.network import AGENT, COORDINATOR, NODE, Network

__all__ = ["PARTS", "ChaosNetwork", "Orphans", "Part", "adopting_orphans"]

Part = Literal[
    "client", "node", "check worker", "validator", "local worker", "engine", "agent", "coordinator"
]
PARTS: Final[tuple[Part, ...]] = (
    "client", "node", "check worker", "validator", "local worker", "engine", "agent", "coordinator",
)  # fmt: skip

NODE_SETTINGS: Final = {
    "local_engine": True,
    "slot_bytes": MIB,
    "grid_slot_bytes": MIB,
    "engine_memory_bytes": 128 * MIB,
}
_WORKER_KIND: Final[Mapping[Part, str]] = {
    "check worker": "check",
    "validator": "validator",
    "local worker": "local",
}
_ENGINE: Final = "app/engine/child.py"
_PR_SET_CHILD_SUBREAPER: Final = 36
ORPHAN_GRACE_S: Final = 6.0
"""How long something may live on after its parent was killed; a busy machine included."""


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Inside, whatever a killed program leaves behind becomes a child of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot adopt orphans")
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@dataclass(slots=True)
class Orphans:
    """Processes that lost their parent: reaped when they end, told when they stay."""

    grace_s: float = ORPHAN_GRACE_S
    first_seen_s: dict[int, float] = field(default_factory=dict)
    told: dict[int, str] = field(default_factory=dict)

    def look(self, own: frozenset[int]) -> None:
        """Reaps what has ended. `own`: the programs' pids, which are no orphans."""
        now_s = time.monotonic()
        for child in psutil.Process().children():
            if child.pid in own:
                continue
            try:
                if child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)
                    continue
                words = " ".join(child.cmdline())
            except (psutil.NoSuchProcess, ChildProcessError):
                continue
            since_s = self.first_seen_s.setdefault(child.pid, now_s)
            if now_s - since_s > self.grace_s:
                self.told.setdefault(child.pid, words[:300])

    def wait_for_none(self, own: frozenset[int]) -> None:
        """Waits until no orphan is left, or each has been told."""
        self.look(own)
        while self.left(own) - self.told.keys():
            time.sleep(0.05)
            self.look(own)

    @staticmethod
    def left(own: frozenset[int]) -> set[int]:
        return {child.pid for child in psutil.Process().children()} - own


class ChaosNetwork(Network):
    """A network whose lab node computes too, with small tiles so that jobs have many.

    Args:
        root: a directory with a short path, which other users may enter.
        agents: owner by name of the agent.
    """

    def __init__(self, root: Path, agents: Mapping[str, str]) -> None:
        super().__init__(root, agents, node=NODE_SETTINGS)
        self.folder = root / "files"
        self.orphans = Orphans()

    def __enter__(self) -> ChaosNetwork:
        self.folder.mkdir()
        with ExitStack() as stack:
            stack.enter_context(adopting_orphans())
            super().__enter__()
            self._adopting = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._adopting:
            super().__exit__(kind, error, trace)
            self.orphans.wait_for_none(frozenset())

    # -- the parts -------------------------------------------------------------------------------

    def own_pids(self) -> frozenset[int]:
        """The programs that were started from here."""
        return frozenset(self.programs.pid(name) for name in self.programs.names())

    def find(self, part: Part, rng: random.Random) -> tuple[str, int] | None:
        """A process of this part: the program that it is or belongs to, and its pid."""
        names = [name for name in self.programs.names() if self._belongs(name, part)]
        found = [(name, pid) for name in names for pid in self._pids(name, part)]
        return rng.choice(sorted(found)) if found else None

    def _belongs(self, name: str, part: Part) -> bool:
        if part in ("client", "node", "coordinator"):
            return name == part
        if part == "agent":
            return name in self.agents
        if part == "engine":
            return name == "node" or name in self.agents
        return name == "node"

    def _pids(self, name: str, part: Part) -> list[int]:
        pid = self.programs.pid(name)
        if part in ("client", "node", "coordinator", "agent"):
            return [pid]
        if part == "engine":
            return [each for each, words in _family(pid) if _ENGINE in words]
        mark = f"--kind {_WORKER_KIND[part]} "
        return [each for each, words in _family(pid) if mark in words and "--fd" in words]

    def has_ended(self, name: str) -> bool:
        """Whether a program has come to its end by itself."""
        try:
            return psutil.Process(self.programs.pid(name)).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def end_all(self) -> None:
        """Ends every program as its user would, and waits until nothing of it is left."""
        self.programs.__exit__(None, None, None)
        self.orphans.wait_for_none(frozenset())

    def start_once_more(self) -> None:
        """Starts the node again and ends it."""
        said = len(self.programs.log("node"))
        self.start_again("node")
        self.programs.await_line("node", "listening on https", said)
        self.end_all()

    def leftovers(self, results: Collection[str]) -> Iterator[str]:
        """Files that nobody needs once all is done and ended. `results`: what the jobs made."""
        blobs, arrays = self.node_state / "blobs", self.node_state / "arrays"
        with closing(sqlite3.connect(self.node_database)) as database:
            known = {path for (path,) in database.execute("select path from array")}
        places = [
            *(path for path in blobs.rglob("*") if path.is_file()),
            *(path for path in arrays.iterdir() if str(path) not in known),
            *(path for path in self.folder.iterdir() if path.name not in results),
        ]
        for name in self.agents:
            places += (self.root / name / "cache").iterdir()
        for path in places:
            yield str(path.relative_to(self.root))

    def tracebacks(self) -> Iterator[tuple[str, str]]:
        """What a program said when something happened that nobody had thought of."""
        for name in ("node", "coordinator", *self.agents):
            before, mark, after = self.programs.log(name).partition("Traceback (most recent")
            if mark:
                yield name, f"{before[-200:]}{mark}{after[:2000]}"

    def start_again(self, name: str) -> None:
        """Starts a program that was killed, without waiting for it."""
        words = {"node": NODE, "coordinator": COORDINATOR}.get(name, AGENT)
        config = self.coordinator_config if name == "coordinator" else self.root / f"{name}.toml"
        serve = () if name in self.agents else ("serve",)
        self.programs.start(name, [*words, *serve, "--config", str(config)])


def _family(pid: int) -> list[tuple[int, str]]:
    """(pid, command line) of all descendants that live."""
    found = []
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for child in children:
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append((child.pid, " ".join(child.cmdline()) + " "))
        except psutil.NoSuchProcess:
            continue
    return found
