"""kill -9 of every part at moments of a fixed seed: nothing verified is lost, nothing used twice.

The audit is of the databases' own rows; the controls show that it finds what is planted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.helpers import chaos_audit, chaos_client
from tests.helpers.chaos import WEIGHTS, Account, Chaos, schedule, write_inputs
from tests.helpers.chaos_audit import Fault, Verified
from tests.helpers.chaos_network import PARTS, ChaosNetwork, Orphans, adopting_orphans

pytestmark = pytest.mark.slow  # with tests at once, each process would run the storm of kills anew


SEED = 20_240_229
PARENT = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=2).pid)"
AGENTS = {"agent-1": "ann", "agent-2": "bob"}


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has come to rest, with its databases."""

    account: Account
    chaos: Chaos
    seen: frozenset[Verified]
    node: Path
    coordinator: Path


def short_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="gg-"))
    root.chmod(0o755)
    return root


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Each part is hit once, while five jobs run."""
    root = short_root()
    try:
        with ChaosNetwork(root, AGENTS) as network:
            write_inputs(network.folder, rows=2048, inner=256, block_rows=8192)
            chaos = Chaos(network, tuple(chaos_client.PROGRAMS), SEED)
            chaos.calm()
            strikes = schedule(SEED, dict.fromkeys(PARTS, 1), gap_s=(0.3, 1.2), pause_s=0.5)
            chaos.storm(strikes, limit_s=150.0)
            chaos.come_to_rest()
        yield Run(
            chaos.account,
            chaos,
            frozenset(chaos.seen),
            network.node_database,
            network.coordinator_database,
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.timeout(300)
def test_killing_every_part_loses_nothing(run: Run) -> None:
    assert run.account.faults == []
    assert dict(run.account.kills) == dict.fromkeys(PARTS, 1)
    assert run.account.tasks > 100
    assert run.seen, "something was verified when the first part was killed"


# -- controls: what the audit must find ------------------------------------------------------------


def copied(source: Path, target: Path) -> Path:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    return target


EVENT = (
    "insert into event select job, (select events + 1 from job where id = e.job), at_s, '{kind}',"
    " task_index, '' from event e where kind = 'used' limit 1"
)
COUNT = (
    "update job set events = events + 1 where id = (select job from event where kind = 'used'"
    " limit 1)"
)
NODE_PLANTS = {
    "a second use": (EVENT.format(kind="used"), "used_twice"),
    "a box used by two tasks": (
        "insert into fold select -task, slot, job, array, start0, stop0, box, blob, at_s from fold"
        " where array is not null limit 1",
        "used_twice",
    ),
    "a use without a verdict": (
        "update task set verified_by = null where rowid = (select min(rowid) from task)",
        "used_unverified",
    ),
    "a use before its verdict": (
        "delete from event where kind = 'verified' and task_index = 0",
        "used_unverified",
    ),
    "a use of what was refused": (
        "update lease set state = 'rejected' where id ="
        " (select id from lease where claim is not null and state = 'accepted' limit 1)",
        "used_unverified",
    ),
    "a use of other bytes": (
        "update fold set blob = 'other' where task ="
        " (select task from lease where claim is not null and state = 'accepted' limit 1)",
        "used_unverified",
    ),
    "a tile that is missing": (
        "delete from fold where task = (select max(task) from fold where array is not null)",
        "used_unverified",
    ),
    "a verdict taken back": (EVENT.format(kind="verified"), "lost"),
    "work after the use": (EVENT.format(kind="leased"), "computed_again"),
    "a gap in the diary": ("delete from event where number = 3", "diary"),
    "a job that stands still": ("update job set state = 'running'", "unfinished"),
    "a blob held by nobody": ("insert into blob values('x', 1, 1)", "leftover"),
}


def kinds(faults: list[Fault]) -> set[str]:
    return {fault.kind for fault in faults}


@pytest.mark.parametrize("plant", NODE_PLANTS)
def test_the_audit_finds(run: Run, tmp_path: Path, plant: str) -> None:
    statement, kind = NODE_PLANTS[plant]
    node = copied(run.node, tmp_path / "node.sqlite")
    assert chaos_audit.audit_tasks(node) == []
    with closing(sqlite3.connect(node)) as database, database:
        assert database.execute(statement).rowcount > 0
        if statement.startswith("insert into event"):
            database.execute(COUNT)
    assert kind in kinds(chaos_audit.audit_tasks(node))


def test_the_audit_finds_a_verified_task_that_is_another_now(run: Run, tmp_path: Path) -> None:
    node = copied(run.node, tmp_path / "node.sqlite")
    assert list(chaos_audit.lost(run.seen, node)) == []
    job, number = next((each.job, each.number) for each in run.seen)
    for change in (
        "update task set winner = 'lease_x' where job = ? and number = ?",
        "update task set state = 'ready' where job = ? and number = ?",
    ):
        with closing(sqlite3.connect(node)) as database, database:
            database.execute(change, (job, number))
        (fault,) = chaos_audit.lost(run.seen, node)
        assert fault.kind == "lost"


CREDIT_PLANTS: dict[str, tuple[str, str, str]] = {
    "an unpaid lease": (
        "node", "delete from outbox where receipt = (select min(receipt) from outbox)", "receipts",
    ),
    "an unsent receipt": ("node", "update outbox set sent_s = null", "receipts"),
    "a receipt for nobody's work": (
        "node",
        "insert into outbox select 'r', grant_id, 'lease_x', signature, units, verified_s, sent_s,"
        " refused from outbox limit 1",
        "receipts",
    ),
    "credit out of nothing": (
        "coordinator",
        "insert into posting select entry, 'account:x', 5 from entry limit 1",
        "ledger",
    ),
    "a balance that was changed": (
        "coordinator", "update balance set micro_units = micro_units + 1", "ledger",
    ),
}  # fmt: skip


@pytest.mark.parametrize("plant", CREDIT_PLANTS)
def test_the_audit_finds_in_the_credits(run: Run, tmp_path: Path, plant: str) -> None:
    which, statement, kind = CREDIT_PLANTS[plant]
    copies = {
        "node": copied(run.node, tmp_path / "node.sqlite"),
        "coordinator": copied(run.coordinator, tmp_path / "coordinator.sqlite3"),
    }
    assert chaos_audit.audit_credits(copies["node"], copies["coordinator"]) == []
    with closing(sqlite3.connect(copies[which])) as database, database:
        assert database.execute(statement).rowcount > 0
    found = chaos_audit.audit_credits(copies["node"], copies["coordinator"])
    assert kind in kinds(found)


def test_other_bytes_and_files_that_stay_are_found(run: Run) -> None:
    network = run.chaos.network
    path = chaos_client.result_path(network.folder, "round1", "local-blocks")
    whole = path.read_bytes()
    extra = network.folder / ".x.npy.result_left"
    part = network.node_state / "blobs" / "parts" / "lease_a-0.upload"
    try:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert [fault.kind for fault in run.chaos.compare_bytes()] == ["bytes"]
        extra.touch()
        part.touch()
        names = {Path(name).name for name in network.leftovers(run.chaos.expected_files())}
        assert names == {extra.name, part.name}
    finally:
        path.write_bytes(whole)
        extra.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def test_an_orphan_is_found() -> None:
    orphans = Orphans(grace_s=0.2)
    own = frozenset(child.pid for child in psutil.Process().children())
    with adopting_orphans():
        words = [sys.executable, "-I", "-c", PARENT]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            orphan = int(parent.stdout.readline())
        orphans.look(own)
        assert orphans.told == {}
        orphans.wait_for_none(own)
        assert list(orphans.told) == [orphan]
        os.kill(orphan, signal.SIGKILL)
        while orphans.left(own):
            orphans.look(own)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_kills_lose_nothing() -> None:
    root = short_root()
    try:
        with ChaosNetwork(root, {**AGENTS, "agent-3": "cyd"}) as network:
            write_inputs(network.folder, rows=4096, inner=512, block_rows=32768)
            chaos = Chaos(network, tuple(chaos_client.PROGRAMS), SEED)
            chaos.calm()
            chaos.storm(schedule(SEED, WEIGHTS, gap_s=(0.5, 6.0), pause_s=2.0), limit_s=1500.0)
            chaos.come_to_rest()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    assert chaos.account.faults == []
    assert dict(chaos.account.kills) == dict(WEIGHTS)


def test_a_seed_gives_one_schedule() -> None:
    made: Callable[[int], object] = lambda seed: schedule(  # noqa: E731
        seed, WEIGHTS, gap_s=(0.5, 6.0), pause_s=2.0
    )
    assert made(3) == made(3)
    assert made(3) != made(4)
    assert sum(WEIGHTS.values()) == 100
