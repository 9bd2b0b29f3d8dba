"""Trust is earned by checks and lost by verdicts; grants are revoked by numbered lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.state import trust
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.cast import WITH_FLOAT64
from tests.simulation.world import CAPABILITIES, Device, Shape, World, party, trusted

__all__: list[str] = []


def test_ten_passed_checks_earn_trust(world: World) -> None:
    device = Device(party(0))
    trusted(world, device)
    key = device.party.device
    world.connection.execute("update device set passed = 9")
    assert not world.handle(lambda s: trust.is_trusted(s, key, 0))
    world.handle(lambda s: trust.passed(s, key, 0))
    assert world.handle(lambda s: trust.is_trusted(s, key, 0))


def test_ten_checks_of_next_to_nothing_earn_a_vote_on_next_to_nothing(world: World) -> None:
    device = Device(party(0))
    world.exchange(device, Exchange(capabilities=CAPABILITIES))
    key = device.party.device
    for _ in range(10):
        world.handle(lambda s: trust.passed(s, key, trust.work_of(1000, 16)))
    assert world.handle(lambda s: trust.is_trusted(s, key, trust.work_of(1000, 16)))
    assert world.handle(lambda s: trust.is_trusted(s, key, trust.work_of(0, 16)))
    large = trust.work_of(10**12, 10**6)
    assert not world.handle(lambda s: trust.is_trusted(s, key, large))
    for _ in range(10):
        world.handle(lambda s: trust.passed(s, key, large))
    assert world.handle(lambda s: trust.is_trusted(s, key, large))


def test_nobody_is_drawn_for_a_task_larger_than_all_that_was_checked(world: World) -> None:
    first, small, large = (Device(party(number)) for number in range(3))
    for device in (first, small, large):
        trusted(world, device)
    name = world.submit(Shape(1, 1, "recompute"))
    world.generate(name)
    world.run(1.0)
    flops = world.connection.execute("select max(flops, 100 * bytes_moved) from task").fetchone()[0]
    change = world.connection.execute
    change("update device set proven = ? where key = ?", (10 * flops - 1, small.party.device))
    change("update device set proven = ? where key = ?", (10 * flops, large.party.device))
    drawn = world.handle(lambda s: trust.independent(s, 1, first.party.device))
    assert drawn == [large.party.device]


def test_nobody_is_drawn_who_lacks_the_dtypes_of_the_task(world: World) -> None:
    first, without, having = (Device(party(number)) for number in range(3))
    for device in (first, without, having):
        trusted(world, device)
    world.exchange(having, Exchange(capabilities=WITH_FLOAT64))
    both = Dtypes.of(("float32", "float64"), (), ()).mask()
    world.generate(world.submit(Shape(1, 1, "recompute", dtypes=both)))
    world.run(1.0)
    drawn = world.handle(lambda s: trust.independent(s, 1, first.party.device))
    assert drawn == [having.party.device]


def row(**fields: float) -> trust.DeviceRow:
    known = dict.fromkeys(trust.DeviceRow._fields, 0) | {"key": "k", "owner": "o"}
    return trust.DeviceRow(**{**known, **fields})  # type: ignore[arg-type]


def test_a_devices_word_about_its_speed_counts_within_bounds() -> None:
    flops = 10**12
    claims = row(flops_per_s=1e12, bytes_per_s=1e9)
    # Its memory moves 10^9 bytes in a second; over a usual link they take 80.
    assert trust.estimate_s(claims, flops, 10**9) == pytest.approx(81.0)
    slow = row(flops_per_s=1e3, bytes_per_s=1.0)
    assert trust.estimate_s(slow, flops, 10**12) == trust.UNPROVEN_S
    shown = row(flops_per_s=1e3, bytes_per_s=1e9, measured_flops_per_s=4e11)
    assert trust.estimate_s(shown, flops, 0) == pytest.approx(10.0)
    boasts = row(flops_per_s=1e15, bytes_per_s=1e9, measured_flops_per_s=1e11)
    assert trust.estimate_s(boasts, flops, 0) == pytest.approx(2.5)


def test_a_rate_is_learned_by_the_labs_clock(world: World) -> None:
    device = Device(party(0))
    trusted(world, device)
    key = device.party.device
    insert = (
        "insert into lease(id, task, job, role, device, owner, bucket, grant_id, state, issued_s,"
        " until_s, committed_s) values(?, 1, 'j', 'first', ?, 'o', 'b', 'g', 'accepted', 5, 9, ?)"
    )
    world.connection.execute(insert, ("one", key, 7.0))
    world.connection.execute(insert, ("never", key, None))
    rate = "select measured_flops_per_s from device"
    world.handle(lambda s: trust.measured(s, "one", trust.LEAST_FLOPS - 1))
    world.handle(lambda s: trust.measured(s, "never", 10**12))
    assert world.connection.execute(rate).fetchone() == (0.0,)
    world.handle(lambda s: trust.measured(s, "one", 10**12))
    assert world.connection.execute(rate).fetchone() == (5e11,)
    world.handle(lambda s: trust.measured(s, "one", 10**11))
    assert world.connection.execute(rate).fetchone()[0] == pytest.approx(4.1e11)


def test_one_rejection_takes_it_all(world: World) -> None:
    device = Device(party(0))
    trusted(world, device)
    job = world.submit(Shape(1))
    world.handle(lambda s: trust.rejected(s, device.party.device, job, 0))
    row = trust.known(SqliteTx(world.connection), device.party.device)
    assert row is not None
    assert (row.passed, row.rejected) == (0, 1)
    assert not world.handle(lambda s: trust.is_trusted(s, device.party.device, 0))


def test_the_own_engine_has_no_record(world: World) -> None:
    job = world.submit(Shape(1))
    world.handle(lambda s: trust.rejected(s, "local", job, 0))
    assert trust.known(SqliteTx(world.connection), "local") is None
    assert not world.handle(lambda s: trust.is_trusted(s, "local", 0))


def test_who_is_independent(world: World) -> None:
    first = Device(party(0))
    same_owner = Device(party(1, owner=0))
    young = Device(party(2, age_days=6))
    untrusted = Device(party(3))
    good = Device(party(4))
    gone = Device(party(5))
    for device in (first, same_owner, young, untrusted, good, gone):
        trusted(world, device)
    change = world.connection.execute
    change("update device set passed = 3 where key = ?", (untrusted.party.device,))
    change("update device set seen_s = 0 where key = ?", (gone.party.device,))
    job = world.submit(Shape(1))
    world.generate(job)
    found = world.handle(lambda s: trust.independent(s, 1, first.party.device))
    assert found == [good.party.device]
    change("update device set bucket = ? where key = ?",
           (first.party.bucket, good.party.device))  # fmt: skip
    assert world.handle(lambda s: trust.independent(s, 1, first.party.device)) == []


def test_a_nonce_is_new_once_and_forgotten_after_its_time(world: World) -> None:
    until_s = world.now_s + 600.0
    assert not world.handle(lambda s: trust.seen_nonces(s, [(b"k", b"n", until_s)])[0])
    world.now_s += 599.0
    world.handle(trust.forget_nonces)
    assert world.handle(lambda s: trust.seen_nonces(s, [(b"k", b"n", until_s)])[0])
    assert not world.handle(lambda s: trust.seen_nonces(s, [(b"other", b"n", until_s)])[0])
    world.now_s += 2.0
    world.handle(trust.forget_nonces)
    assert world.connection.execute("select count(*) from nonce").fetchone() == (0,)


def test_nonces_that_come_together_are_told_apart(world: World) -> None:
    until_s = world.now_s + 600.0
    old = [(b"k%d" % number, b"n", until_s) for number in range(3)]
    assert world.handle(lambda s: trust.seen_nonces(s, old)) == [False] * 3
    new = [(b"k%d" % number, b"m", until_s) for number in range(20)]
    together = [*new[:9], old[1], None, new[4], *new[9:], old[2]]
    seen = world.handle(lambda s: trust.seen_nonces(s, together))
    assert [place for place, each in enumerate(seen) if each] == [9, 11, 23]
    assert world.connection.execute("select count(*) from nonce").fetchone() == (23,)
    assert world.handle(lambda s: trust.seen_nonces(s, new)) == [True] * 20


def test_what_a_grant_says_anew_is_written_and_nothing_else_for_a_while(world: World) -> None:
    world.handle(lambda s: trust.admit(s, [(party(0), None)])[0])
    began_s = world.now_s
    world.now_s += 1.0
    _, standing = world.handle(lambda s: trust.admit(s, [(party(0), None)])[0])
    assert standing == trust.Standing(0, 0, False)
    seen = "select seen_s, owner_age_days from device"
    assert world.connection.execute(seen).fetchone()[0] == began_s
    older = replace(party(0), owner_age_days=party(0).owner_age_days + 1)
    world.handle(lambda s: trust.admit(s, [(older, None)])[0])
    assert world.connection.execute(seen).fetchone() == (world.now_s, older.owner_age_days)
    world.now_s += trust.SEEN_S + 1.0
    world.handle(lambda s: trust.admit(s, [(older, None)])[0])
    assert world.connection.execute(seen).fetchone()[0] == world.now_s


def test_only_a_newer_revocation_list_counts(world: World) -> None:
    assert world.handle(lambda s: trust.revoke(s, 5, ["grant_a", "grant_b"]))
    assert not world.handle(lambda s: trust.revoke(s, 4, []))
    assert trust.revoked(SqliteTx(world.connection)) == {"grant_a", "grant_b"}
    assert world.handle(lambda s: trust.revoke(s, 6, ["grant_b"]))
    assert trust.revoked(SqliteTx(world.connection)) == {"grant_b"}


def test_a_device_without_capabilities_gets_nothing(world: World) -> None:
    job = world.submit(Shape(1))
    world.generate(job)
    world.run(5.0)
    reply = world.exchange(Device(party(0)), Exchange(want=1))
    assert reply is not None
    assert reply.leases == ()
