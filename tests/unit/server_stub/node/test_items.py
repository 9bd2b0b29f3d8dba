"""Instructions become items, and late ones become nothing."""

from __future__ import annotations

import pytest

from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.items import build, work_id
from server_stub.node.state import jobs, leases, tolerances
from server_stub.node.state.words import Purpose, RunWork
from server_stub.node.store.sqlite import SqliteTx
from server_stub.node.work import (
    BlobInput,
    BlobOutput,
    Box,
    Check,
    Compare,
    Compute,
    Fold,
    Prepare,
    Recompute,
    RegionInput,
    RegionOutput,
)
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party
from tests.unit.server_stub.node.state.test_leases import result

__all__: list[str] = []


@pytest.fixture
def leased(world: World) -> tuple[World, str]:
    """A world with one committed task of a chain of two, and its lease."""
    job = world.submit(Shape(1, 2, "product"))
    world.generate(job)
    world.run(5.0)
    device = Device(party(0))
    reply = world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
    assert reply is not None
    lease = reply.leases[0].lease
    world.exchange(device, Exchange(commits=(result(lease),)))
    return world, lease


def item(world: World, purpose: Purpose, task: int, lease: str = "", second: str = "") -> object:
    return build(SqliteTx(world.connection), RunWork(purpose, task, lease, second))


def test_one_name_for_one_piece_of_work() -> None:
    assert work_id(RunWork("check", 5, "lease_a")) == work_id(RunWork("check", 5, "lease_a", "x"))
    names = {work_id(RunWork(p, t, lease)) for p in ("check", "judge") for t in (1, 2)
             for lease in ("", "lease_a")}  # fmt: skip
    assert len(names) == 8


def test_each_purpose_has_its_item(leased: tuple[World, str]) -> None:
    world, lease = leased
    packed = item(world, "prepare", 1)
    assert isinstance(packed, Prepare)
    assert packed.store
    check = item(world, "check", 1, lease)
    assert isinstance(check, Check)
    assert check.fold
    source = check.inputs[0]
    assert isinstance(source, RegionInput)
    assert (source.box, source.array.path) == (Box((0,), (2,)), "/in")
    assert isinstance(check.outputs[0], BlobOutput), "an intermediate is kept as a blob"
    assert [one.nbytes for one in check.committed] == [8]
    again = item(world, "recompute", 1, lease)
    assert isinstance(again, Recompute)
    assert (again.fold, again.repair) == (True, True)
    judge = item(world, "judge", 1, lease)
    assert isinstance(judge, Recompute)
    assert (judge.fold, judge.repair) == (False, False)
    assert isinstance(item(world, "compare", 1, lease, lease), Compare)
    assert isinstance(item(world, "fold", 1, lease), Fold)
    compute = item(world, "compute", 1, lease)
    assert compute is None, "a committed lease is not computed again"


def test_inputs_from_earlier_tasks_are_blobs_and_results_have_their_place(world: World) -> None:
    job = world.submit(Shape(1, 2, "product"), executor="local")
    world.generate(job)
    blob = world.store("a|x")
    world.connection.execute("update task_input set blob = ? where producer is not null", (blob,))
    world.connection.execute("insert into lease(id, task, job, role, device, owner, bucket,"
                             " grant_id, state, issued_s, until_s) values('lease_a', 2, ?, 'first',"
                             " 'local', '', '', '', 'issued', 0, 1)", (job,))  # fmt: skip
    compute = item(world, "compute", 2, "lease_a")
    assert isinstance(compute, Compute)
    assert compute.inputs[1] == BlobInput(blob, 8, "float32", (2,))
    place = compute.outputs[0]
    assert isinstance(place, RegionOutput)
    assert place.array.path == "/out"


def test_what_nobody_wants_any_more_is_no_item(leased: tuple[World, str]) -> None:
    world, lease = leased
    job = world.connection.execute("select id from job").fetchone()[0]
    world.handle(lambda step: jobs.cancel(step, job))
    for purpose in ("prepare", "check", "recompute", "judge", "compare", "fold", "compute"):
        assert item(world, purpose, 1, lease, lease) is None  # type: ignore[arg-type]
    assert item(world, "check", 99, lease) is None


def test_who_judges_knows_what_was_measured(
    leased: tuple[World, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, lease = leased
    job, graph = world.connection.execute("select job, graph from task where id = 1").fetchone()
    world.handle(lambda step: tolerances.note(step, job, graph, 0, ((1e-6,),)))
    for is_chosen in (False, True):
        monkeypatch.setattr(tolerances, "is_chosen", lambda *_, now=is_chosen: now)
        for purpose in ("recompute", "judge", "compare"):
            found = item(world, purpose, 1, lease, lease)
            assert isinstance(found, (Recompute, Compare))
            assert found.tolerance == (() if is_chosen else ((1e-6,),))


def test_a_result_that_was_taken_back_is_not_looked_at(leased: tuple[World, str]) -> None:
    """A job that was ended goes on, and an instruction of its first life comes late: an item
    without results would be refused by the worker, and the job would fail of it."""
    world, lease = leased
    gone = "lease_" + "q" * 26
    assert item(world, "compare", 1, lease, gone) is None
    world.handle(lambda step: leases.drop_votes(step, lease))
    for purpose in ("check", "compare", "fold"):
        assert item(world, purpose, 1, lease, lease) is None  # type: ignore[arg-type]
    again = item(world, "recompute", 1, lease)
    assert isinstance(again, Recompute)
    assert again.committed == ()
