"""Trust is earned by checks and lost by verdicts; grants are revoked by numbered lists."""

from __future__ import annotations

from dataclasses import replace

from gpugoblin.wire.messages.lease import Exchange
from server_stub.node.state import trust
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.world import Device, Shape, World, party, trusted

__all__: list[str] = []


def test_ten_passed_checks_earn_trust(world: World) -> None:
    device = Device(party(0))
    trusted(world, device)
    key = device.party.device
    world.connection.execute("update device set passed = 9")
    assert not world.handle(lambda s: trust.is_trusted(s, key))
    world.handle(lambda s: trust.passed(s, key))
    assert world.handle(lambda s: trust.is_trusted(s, key))


def test_one_rejection_takes_it_all(world: World) -> None:
    device = Device(party(0))
    trusted(world, device)
    job = world.submit(Shape(1))
    world.handle(lambda s: trust.rejected(s, device.party.device, job, 0))
    row = trust.known(SqliteTx(world.connection), device.party.device)
    assert row is not None
    assert (row.passed, row.rejected) == (0, 1)
    assert not world.handle(lambda s: trust.is_trusted(s, device.party.device))


def test_the_own_engine_has_no_record(world: World) -> None:
    job = world.submit(Shape(1))
    world.handle(lambda s: trust.rejected(s, "local", job, 0))
    assert trust.known(SqliteTx(world.connection), "local") is None
    assert not world.handle(lambda s: trust.is_trusted(s, "local"))


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
    assert not world.handle(lambda s: trust.saw_nonce(s, b"k", b"n", until_s))
    world.now_s += 599.0
    world.handle(trust.forget_nonces)
    assert world.handle(lambda s: trust.saw_nonce(s, b"k", b"n", until_s))
    assert not world.handle(lambda s: trust.saw_nonce(s, b"other", b"n", until_s))
    world.now_s += 2.0
    world.handle(trust.forget_nonces)
    assert world.connection.execute("select count(*) from nonce").fetchone() == (0,)


def test_what_a_grant_says_anew_is_written_and_nothing_else_for_a_while(world: World) -> None:
    world.handle(lambda s: trust.admit(s, party(0), None))
    began_s = world.now_s
    world.now_s += 1.0
    _, standing = world.handle(lambda s: trust.admit(s, party(0), None))
    assert standing == trust.Standing(0, 0, False)
    seen = "select seen_s, owner_age_days from device"
    assert world.connection.execute(seen).fetchone()[0] == began_s
    older = replace(party(0), owner_age_days=party(0).owner_age_days + 1)
    world.handle(lambda s: trust.admit(s, older, None))
    assert world.connection.execute(seen).fetchone() == (world.now_s, older.owner_age_days)
    world.now_s += trust.SEEN_S + 1.0
    world.handle(lambda s: trust.admit(s, older, None))
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
