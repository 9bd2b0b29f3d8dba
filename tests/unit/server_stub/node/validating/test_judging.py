"""What a validator's word is worth: never about its own, never a conviction, and not for ever."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpugoblin.wire.messages.job import JobInfo
from server_stub.node.state import validators
from server_stub.node.state.validators import Validator
from server_stub.node.state.words import RunWork
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.validating.judging import independent, makers
from server_stub.node.work import Reply, Work
from tests.helpers.judges import Judge, judging
from tests.helpers.lab import Lab, grid_settings, on_grid, product, row_sums, until, work_until
from tests.helpers.node import LabNode

__all__: list[str] = []

JUDGING = {"Check", "Recompute", "Compare"}
OWNER, OTHER = (f"owner_{letter * 26}" for letter in "ab")
BUCKET = "a" * 16


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with LabNode(tmp_path, **grid_settings()) as node, Lab(node, tmp_path) as made:
        node.node.desk._hold_s = 0.2
        yield made


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    return Judge(tmp_path / "judge")


def here(lab: Lab) -> None:
    until(lambda: lab.node.node.desk.present())


def run(lab: Lab, name: str = "sums", **grant: Any) -> JobInfo:
    array = lab.file(np.ones((6, 5), np.float32), f"{name}.npy")
    with lab.device(**grant) as device:
        return work_until(lab, on_grid(lab, row_sums((6, 5)), array, name=name), [device])


def test_a_validator_recomputes_and_the_node_folds(lab: Lab, judge: Judge) -> None:
    with judging(lab, judge, ours=True):
        here(lab)
        ended = run(lab)
    assert (ended.state, ended.verified_by.recompute) == ("done", 1)
    assert [type(item).__name__ for item in judge.items] == ["Recompute"]
    assert "Recompute" not in lab.node.workers.done
    assert "Fold" in lab.node.workers.done
    np.testing.assert_array_equal(lab.result(ended.outputs[0]), np.full(6, 5, np.float32))


def test_it_checks_products_by_blobs_alone(lab: Lab, judge: Judge) -> None:
    a, b, graph = product(300, 40, 200)
    files = (lab.file(a, "a.npy"), lab.file(b, "b.npy"))
    with judging(lab, judge, ours=True), lab.device() as device:
        here(lab)
        ended = work_until(lab, on_grid(lab, graph, *files, name="ab"), [device])
    assert ended.verified_by.product == ended.tasks == len(judge.items)
    np.testing.assert_allclose(lab.result(ended.outputs[0]), a @ b, rtol=1e-3, atol=1e-3)


def test_a_wrong_result_is_convicted_by_the_node_alone(lab: Lab, judge: Judge) -> None:
    judge.harsh = True
    with judging(lab, judge, ours=True):
        here(lab)
        ended = run(lab)
    assert judge.items
    assert "Recompute" in lab.node.workers.done
    assert (ended.state, ended.lost.rejected) == ("done", 0)


def test_a_partner_that_accepts_what_is_wrong_is_caught_by_chance(lab: Lab, judge: Judge) -> None:
    judge.blind = True

    class Always(random.Random):
        def random(self) -> float:
            return 0.0

    lab.node.node.rng = Always(1)
    array = lab.file(np.ones((6, 5), np.float32), "v.npy")
    with judging(lab, judge), lab.device() as device:
        here(lab)
        device.spoil = lambda arrays: [each + 1 for each in arrays]
        job = on_grid(lab, row_sums((6, 5)), array, name="lie")
        until(lambda: device.work() > 0)
        until(lambda: lab.node.read("select 1 from meta where value like '%\"caught_s\":1%'"))
        ended = lab.wait(lab.job(job.job))
        assert lab.node.node.desk.present() == []
    assert ended.lost.rejected == 1
    np.testing.assert_array_equal(lab.result(ended.outputs[0]), np.full(6, 5, np.float32))
    assert lab.node.read("select count(*) from tolerance") == [(0,)]


@pytest.mark.parametrize("known", [{"owners": (OWNER,)}, {"buckets": (BUCKET,)}])
def test_without_an_independent_one_the_node_judges(
    lab: Lab, judge: Judge, known: dict[str, tuple[str, ...]]
) -> None:
    with judging(lab, judge, ours=True, **known):
        here(lab)
        ended = run(lab, owner_pseudonym=OWNER, network_bucket=BUCKET)
        assert judge.items == []
        assert "Recompute" in lab.node.workers.done
        other = run(lab, "other", owner_pseudonym=OTHER, network_bucket="b" * 16)
        assert len(judge.items) == 1
    assert (ended.state, other.state) == ("done", "done")


def test_what_the_lab_computes_is_the_lab_s_to_judge(lab: Lab, judge: Judge) -> None:
    array = lab.file(np.ones((6, 5), np.float32), "v.npy")
    with judging(lab, judge, ours=True):
        here(lab)
        assert lab.wait(lab.submit(row_sums((6, 5)), array, executor="local")).state == "done"
    assert judge.items == []
    assert JUDGING & set(lab.node.workers.done)


def test_independence_is_of_every_maker() -> None:
    validator = Validator("v", "0" * 64, ("ann",), ("net1",))
    assert independent(validator, [("bob", "net2", "grant_a"), ("carl", "net3", "grant_b")])
    for maker in (("ann", "net2", "grant_b"), ("bob", "net1", "grant_b"), ("lab", "lab", "")):
        assert not independent(validator, [("bob", "net2", "grant_a"), maker])


def test_makers_are_all_who_returned_a_result_of_the_task() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            "create table task(id, state); create table vote(lease, slot);"
            "create table lease(id, task, owner, bucket, grant_id);"
            "insert into task values(1, 'checking'), (2, 'suspect');"
            "insert into lease values('a', 1, 'ann', 'n1', 'g1'), ('b', 1, 'bob', 'n2', 'g2'),"
            " ('c', 1, 'carl', 'n3', 'g3'), ('d', 2, 'dan', 'n4', 'g4');"
            "insert into vote values('a', 0), ('b', 0), ('d', 0);"
        )
        tx = SqliteTx(connection)
        first = RunWork("recompute", 1, "a")
        assert makers(tx, first) == [("ann", "n1", "g1"), ("bob", "n2", "g2")]
        assert makers(tx, RunWork("recompute", 1)) is None
        assert makers(tx, RunWork("compare", 1, "a", "z")) is None
        assert makers(tx, RunWork("recompute", 2, "d")) is None  # a dispute is the node's


def test_the_word_of_one_that_was_removed_meanwhile_is_not_taken(lab: Lab, judge: Judge) -> None:
    node = lab.node.node
    do = node.desk.do

    async def removed_then(name: str, work: Work) -> Reply:
        reply = await do(name, work)
        await node.handle(lambda step: validators.remove(step.tx, name))
        return reply

    node.desk.do = removed_then  # type: ignore[method-assign]  # an administrator, just then
    with judging(lab, judge, ours=True):
        here(lab)
        ended = run(lab)
    assert len(judge.items) == 1
    assert "Recompute" in lab.node.workers.done
    assert ended.state == "done"


def test_a_validator_that_falls_silent_costs_its_items_only(lab: Lab, tmp_path: Path) -> None:
    thaw = threading.Event()

    class Frozen(Judge):
        async def run(self, frame: bytes) -> bytes:
            thaw.wait(60.0)  # the whole program stands still
            return await super().run(frame)

    judge = Frozen(tmp_path / "frozen")
    lab.node.node.desk._lost_s = 2.0
    with judging(lab, judge, ours=True):
        here(lab)
        try:
            ended = run(lab)
        finally:
            thaw.set()
    assert ended.state == "done"
    assert len(judge.items) == 1
    assert "Recompute" in lab.node.workers.done
