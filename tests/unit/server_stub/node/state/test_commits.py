"""Results of one request: each is judged by itself, and those that come in time at once."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from gpugoblin.wire.messages.lease import Abandon, Exchange
from gpugoblin.wire.messages.task import Result
from server_stub.node.state import commits, leases, trust
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party
from tests.unit.server_stub.node.state.test_leases import result

__all__: list[str] = []

MANY = 70
"""More than one statement takes."""


def ready(world: World, count: int) -> None:
    world.window = count
    job = world.submit(Shape(count, 1, "product"))
    for _ in range(0, count, 4):
        world.generate(job)
    world.run(5.0)


def device_of(number: int) -> Device:
    return Device(replace(party(number), max_leases=64))


def held(world: World, device: Device, want: int) -> list[str]:
    reply = world.exchange(device, Exchange(want=want, capabilities=CAPABILITIES))
    assert reply is not None
    assert len(reply.leases) == want
    return [lease.lease for lease in reply.leases]


def rows(world: World, statement: str) -> list[Any]:
    return [row for row in world.connection.execute(statement)]


def task_of(world: World, lease: str) -> int:
    found = world.connection.execute("select task from lease where id = ?", (lease,)).fetchone()
    return int(found[0])


@pytest.mark.parametrize("at_once", [True, False])
def test_results_in_time_are_all_awaited(world: World, at_once: bool) -> None:
    ready(world, 6)
    device = device_of(0)
    given = held(world, device, 6)
    # Two results of the same content: the blob has two references.
    texts = ["a", "b", "a", "c", "d", "e"]
    results = [result(lease, text) for lease, text in zip(given, texts, strict=True)]
    batches = [tuple(results)] if at_once else [(each,) for each in results]
    for batch in batches:
        reply = world.exchange(device, Exchange(commits=batch))
        assert reply is not None
        assert reply.uploads == tuple(each.lease for each in batch)
        assert reply.refused == ()
    counts = dict(rows(world, "select v.blob, b.refs from vote v join blob b on b.hash = v.blob"))
    assert sorted(counts.values()) == [1, 1, 1, 1, 2]
    states = rows(world, "select state, count(*) from lease group by state")
    assert states == [("committed", 6)]
    until = rows(world, "select distinct until_s - committed_s from lease")
    assert until == [(pytest.approx(600.0),)]
    kinds = rows(world, "select kind, task_index from event where kind = 'committed'")
    assert kinds == [("committed", number) for number in range(6)]


def test_each_result_keeps_its_own_words(world: World) -> None:
    ready(world, 3)
    device = device_of(0)
    given = held(world, device, 3)
    results = tuple(
        msgspec.structs.replace(
            result(lease, f"{number}"), engine_build=f"b{number}", driver=f"d{number}",
            kernel_set=f"{number}" * 64, claim=bytes([number]) * 64,
        )
        for number, lease in enumerate(given)
    )  # fmt: skip
    world.exchange(device, Exchange(commits=results))
    kept = rows(
        world, "select id, engine_build, driver, kernel_set, claim, sandbox_level from lease"
    )
    assert sorted(kept) == sorted(
        (each.lease, each.engine_build, each.driver, each.kernel_set, each.claim, "full")
        for each in results
    )


def test_one_bad_result_spoils_no_other(world: World) -> None:
    ready(world, 5)
    device, other = device_of(0), device_of(1)
    given = held(world, device, 4)
    foreign = held(world, other, 1)[0]
    commits = (
        result(given[0], "a"),
        result(given[1], "b", nbytes=9),  # not what the task gives
        result(foreign, "c"),
        result(given[2], "d"),
        result("lease_" + "q" * 26, "e"),
        result(given[3], "f"),
        result(given[0], "a"),  # once more
        result(given[3], "g"),  # once more, and different
    )
    reply = world.exchange(device, Exchange(commits=commits))
    assert reply is not None
    assert reply.uploads == (given[0], given[2], given[3], given[0])
    assert [(each.lease, each.code) for each in reply.refused] == [
        (given[1], "outputs_mismatch"),
        (foreign, "unknown_lease"),
        ("lease_" + "q" * 26, "unknown_lease"),
        (given[3], "already_committed"),
    ]
    states = dict(rows(world, "select id, state from lease"))
    assert states == {
        given[0]: "committed", given[1]: "abandoned", given[2]: "committed",
        given[3]: "committed", foreign: "issued",
    }  # fmt: skip
    assert len(rows(world, "select 1 from vote")) == 3


def test_late_and_revived_results_beside_those_in_time(world: World) -> None:
    ready(world, 2)
    device, other = device_of(0), device_of(1)
    old = held(world, device, 2)
    world.now_s += 10_000.0
    world.handle(leases.expire)
    taken = held(world, other, 1)[0]  # the first of the two has somebody else now
    task = dict(rows(world, "select id, task from lease"))
    late = next(lease for lease in old if task[lease] == task[taken])
    free = next(lease for lease in old if lease != late)
    fresh = held(world, device, 1)[0]
    reply = world.exchange(
        device, Exchange(commits=(result(fresh, "a"), result(late, "b"), result(free, "c")))
    )
    assert reply is not None
    codes = {each.lease: each.code for each in reply.refused}
    assert codes[late] == "late"
    # The other task was leased again to the same device, so its old lease comes too late as well.
    assert task_of(world, fresh) == task[free]
    assert codes[free] == "late"
    assert reply.uploads == (fresh,)
    assert rows(world, "select held, count(*) from vote group by held") == [(0, 2), (1, 1)]


def test_more_results_than_one_statement_takes(world: World) -> None:
    ready(world, MANY)
    device = device_of(0)
    step_leases: list[str] = []

    def take_all(step: Any) -> None:
        ((row, _),) = trust.admit(step, [(device.party, CAPABILITIES)])
        taken = []
        for (lane,) in rows(world, "select distinct lane from task"):
            while (task := leases.take(step, row, lane)) is not None:
                taken.append((task, 1.0, device.party))
        given = leases.issue(step, taken, "first")
        step_leases.extend(lease for lease, _ in given)

    world.handle(take_all)
    assert len(step_leases) == MANY
    named = [(lease, [(f"{number:064x}", 8)]) for number, lease in enumerate(step_leases)]
    world.handle(lambda step: leases.add_first_votes(step, named))
    assert len(rows(world, "select 1 from vote")) == MANY
    # A second time nothing is added, and nothing is held twice.
    lease, hashes = named[0]
    world.handle(lambda step: leases.add_votes(step, lease, hashes, held=True))
    assert set(rows(world, "select refs from blob where hash like '00%'")) == {(1,)}


def tables(world: World) -> list[list[Any]]:
    """Everything that a commit can change."""
    return [
        rows(world, "select * from lease order by id"),
        rows(world, "select * from vote order by lease, slot"),
        rows(world, "select * from blob order by hash"),
        rows(world, "select * from task order by id"),
        rows(world, "select * from job"),
    ]


def answered(seed: int, *, at_once: bool) -> tuple[list[str], list[list[Any]]]:
    """What 24 commits of leases of every kind are told, and all tables after them."""
    random = Random(seed)
    world = World(seed=7)
    ready(world, 12)
    device, other = device_of(0), device_of(1)
    known = held(world, device, 4)
    world.now_s += 10_000.0
    world.handle(leases.expire)
    known += held(world, other, 2) + held(world, device, 5)
    world.handle(lambda step: leases.abandon(step, device.party, known[-1], "owner"))
    named = [*known, "lease_" + "q" * 26]
    results = [
        result(random.choice(named), random.choice("abc"), random.choice((8, 8, 8, 9)))
        for _ in range(24)
    ]

    def commit(some: list[Result]) -> list[str]:
        return world.handle(
            lambda step: commits.commit(step, [(device.party, one) for one in some])
        )

    batches = [results] if at_once else [[each] for each in results]
    codes = [code for batch in batches for code in commit(batch)]
    found = tables(world)
    world.close()
    return codes, found


@pytest.mark.parametrize("seed", range(12))
def test_results_of_one_request_are_answered_as_if_they_came_alone(seed: int) -> None:
    """Whatever their leases are: twice in one request, over, given back, of others, or none."""
    found = answered(seed, at_once=True)
    assert found == answered(seed, at_once=False)
    assert len(set(found[0])) > 3


def test_a_result_and_its_lease_given_back_in_one_request(world: World) -> None:
    ready(world, 2)
    device = device_of(0)
    first, second = held(world, device, 2)
    message = Exchange(
        commits=(result(first, "a"), result(second, "b")), abandons=(Abandon(first, "owner"),)
    )
    world.exchange(device, message)
    states = dict(rows(world, "select id, state from lease"))
    assert states == {first: "abandoned", second: "committed"}
    assert sorted(rows(world, "select state from task")) == [("leased",), ("ready",)]
    assert sorted(rows(world, "select lease, held from vote")) == sorted([(first, 0), (second, 1)])
