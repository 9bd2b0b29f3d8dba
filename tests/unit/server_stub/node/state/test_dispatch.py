"""The exchange: its order, and what a lease carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpugoblin.graph.dtypes import Dtypes
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.lease import Abandon, Exchange, ExchangeReply
from server_stub.node.state import dispatch
from tests.simulation.cast import ENGINE, FLOAT32, WITH_FLOAT64
from tests.simulation.world import CAPABILITIES, CATALOG, Device, Shape, World, party
from tests.unit.server_stub.node.state.test_leases import result

__all__: list[str] = []


def ready(world: World, count: int = 4, dtypes: int = FLOAT32, **job: object) -> str:
    name = world.submit(Shape(count, 1, "product", dtypes=dtypes), **job)  # type: ignore[arg-type]
    world.generate(name)
    world.run(5.0)
    return name


def test_a_lease_carries_all_a_device_needs_and_no_name(world: World) -> None:
    ready(world, name="canaryname")
    reply = world.exchange(Device(party(0)), Exchange(want=1, capabilities=CAPABILITIES))
    assert reply is not None
    lease = reply.leases[0]
    assert lease.until_s == world.now_s + 60.0
    assert [one.slot for one in lease.task.inputs] == [0]
    assert lease.task.outputs[0].shape == (2,)
    assert lease.task.catalog_hash == CATALOG
    assert lease.task.verify[0].method == "product"
    data = encode(reply)
    assert decode(ExchangeReply, data) == reply
    assert b"canaryname" not in data
    assert b"alice" not in data


def test_commits_abandons_and_leases_in_one_request(world: World) -> None:
    ready(world)
    device = Device(party(0))
    first = world.exchange(device, Exchange(want=2, capabilities=CAPABILITIES))
    assert first is not None
    done, back = (lease.lease for lease in first.leases)
    reply = world.exchange(
        device, Exchange(commits=(result(done),), abandons=(Abandon(back, "owner"),), want=1)
    )
    assert reply is not None
    assert reply.uploads == (done,)
    assert reply.refused == ()
    assert len(reply.leases) == 1


def test_a_replayed_request_does_nothing(world: World) -> None:
    ready(world)
    message = Exchange(want=1, capabilities=CAPABILITIES)
    asked = [dispatch.Asked(party(0), message, (b"key", b"nonce", 1e9))]
    assert world.handle(lambda s: dispatch.signed_exchanges(s, asked)) != [None]
    assert world.handle(lambda s: dispatch.signed_exchanges(s, asked)) == [None]
    assert world.connection.execute("select count(*) from lease").fetchone() == (1,)


def test_another_catalog_gets_nothing(world: World) -> None:
    ready(world)
    foreign = msgspec.structs.replace(CAPABILITIES, catalog_hash="d" * 64)
    reply = world.exchange(Device(party(0)), Exchange(want=1, capabilities=foreign))
    assert reply is not None
    assert reply.leases == ()
    assert reply.wait_s > 0


def test_a_small_device_is_not_asked_for_large_tasks(world: World) -> None:
    ready(world)
    small = msgspec.structs.replace(CAPABILITIES, memory_bytes=500)
    reply = world.exchange(Device(party(0)), Exchange(want=1, capabilities=small))
    assert reply is not None
    assert reply.leases == ()


def test_tasks_near_what_a_device_has_come_first(world: World) -> None:
    ready(world, count=4)
    world.tick()
    world.run(5.0)
    device = Device(party(0))
    seen = []
    for _ in range(4):
        reply = world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
        assert reply is not None
        seen += [lease.task.affinity_key for lease in reply.leases]
    assert seen == [0, 0, 1, 2]


def test_a_slow_validator_means_fewer_leases(world: World) -> None:
    from server_stub.node.state.words import Step

    name = world.submit(Shape(2, 1, "recompute"))
    world.generate(name)
    world.run(5.0)

    def body(step: Step) -> ExchangeReply:
        step.validator_behind = True
        message = Exchange(want=1, capabilities=CAPABILITIES)
        return dispatch.exchange(step, party(0), message)

    assert world.handle(body).leases == ()


FLOAT64 = Dtypes.of(("float64",), ("float64",), ()).mask()


def test_a_task_goes_only_to_devices_that_have_its_dtypes(world: World) -> None:
    ready(world, count=2, dtypes=FLOAT64)
    without, having = Device(party(0)), Device(party(1))
    for _ in range(2):
        reply = world.exchange(without, Exchange(want=2, capabilities=CAPABILITIES))
        assert reply is not None
        assert reply.leases == ()
        assert reply.wait_s > 0
    reply = world.exchange(having, Exchange(want=2, capabilities=WITH_FLOAT64))
    assert reply is not None
    assert len(reply.leases) == 2


def leased(world: World, number: int, **words: Any) -> int:
    """How many leases a device with such capabilities gets of two that it wants."""
    known = msgspec.structs.replace(CAPABILITIES, **words)
    reply = world.exchange(Device(party(number)), Exchange(want=2, capabilities=known))
    assert reply is not None
    return len(reply.leases)


def test_a_task_of_a_rare_operator_goes_to_no_device_that_lacks_it(world: World) -> None:
    needs = Dtypes.of(("float32",), (), (), rare=("cholesky",))
    ready(world, count=1, dtypes=needs.mask())
    common = dict(CAPABILITIES.operators)
    assert leased(world, 0, operators=common) == 0
    assert leased(world, 1, operators={**common, "qr": 1}) == 0
    assert leased(world, 2, operators={**common, "cholesky": 2}) == 0
    assert leased(world, 3, operators={**common, "cholesky": 1}) == 1


def test_a_device_without_a_common_operator_gets_nothing(world: World) -> None:
    ready(world, count=2)
    common = dict(CAPABILITIES.operators)
    assert leased(world, 0, operators={**common, "matmul": 2}) == 0
    assert leased(world, 1, operators={**common, "of a later catalog": 1}) == 2


def test_a_task_goes_only_to_devices_that_serve_its_class(world: World) -> None:
    ready(world, count=1, numeric_class="exact")
    assert leased(world, 0, classes=("float32", "bfloat16")) == 0
    assert leased(world, 1, classes=("exact",)) == 1


def test_whole_numbers_are_exact_everywhere(world: World) -> None:
    ready(world, count=1, dtypes=Dtypes.of(("int32",), (), ()).mask(), numeric_class="exact")
    assert leased(world, 0, dtypes=("int32",), classes=("float32",)) == 1


def test_dtypes_count_by_what_is_done_with_them(world: World) -> None:
    """To store int8 is not to add it up."""
    ready(world, count=1, dtypes=Dtypes.of(("int8",), ("int8",), ()).mask())
    device = Device(party(0))
    for arithmetic, leased in ((("float32",), 0), (("float32", "int8"), 1)):
        known = msgspec.structs.replace(
            CAPABILITIES, dtypes=("float32", "int8"), arithmetic=arithmetic
        )
        reply = world.exchange(device, Exchange(want=1, capabilities=known))
        assert reply is not None
        assert len(reply.leases) == leased


def test_a_device_passes_by_what_it_has_no_dtype_for(world: World) -> None:
    ready(world, count=1, dtypes=FLOAT64)
    ready(world, count=1, name="other")
    reply = world.exchange(Device(party(0)), Exchange(want=2, capabilities=CAPABILITIES))
    assert reply is not None
    assert len(reply.leases) == 1


def test_the_own_engine_gets_the_dtypes_that_it_has(world: World) -> None:
    ready(world, executor="local", dtypes=FLOAT64)
    assert world.handle(lambda step: dispatch.lease_local(step, 3, ENGINE)) == []
    assert len(world.handle(lambda step: dispatch.lease_local(step, 3, ENGINE | FLOAT64))) == 3


def test_the_own_engine_takes_tasks_in_the_plans_order(world: World) -> None:
    ready(world, executor="local")
    issued = world.handle(lambda step: dispatch.lease_local(step, 3, ENGINE))
    assert [one.number for one in issued] == [0, 1, 2]
    issued = world.handle(lambda step: dispatch.lease_local(step, 3, ENGINE))
    assert [one.number for one in issued] == [3]


def test_leases_whose_answer_was_lost_are_given_to_others_soon(world: World) -> None:
    ready(world, count=2)
    device = Device(party(0))
    lost = world.exchange(device, Exchange(want=2, capabilities=CAPABILITIES))
    assert lost is not None
    device.held.clear()  # as if the answer had never come
    young = world.exchange(device, Exchange(want=2))
    assert young is not None
    assert young.leases == ()
    world.now_s += 16.0
    again = world.exchange(device, Exchange(want=2))
    assert again is not None
    assert len(again.leases) == 2
    states = "select state, cause, count(*) from lease group by 1, 2 order by 1"
    found = world.connection.execute(states).fetchall()
    assert found == [("expired", "unheard", 2), ("issued", "", 2)]


def test_leases_that_a_device_names_are_left_alone(world: World) -> None:
    ready(world, count=3)
    device = Device(party(0))
    first = world.exchange(device, Exchange(want=3, capabilities=CAPABILITIES))
    assert first is not None
    done, back, kept = (lease.lease for lease in first.leases)
    world.now_s += 50.0
    device.held = {kept}
    reply = world.exchange(
        device, Exchange(commits=(result(done),), abandons=(Abandon(back, "owner"),))
    )
    assert reply is not None
    assert reply.uploads == (done,)
    assert reply.cancelled == ()
    states = "select id, state from lease"
    assert dict(world.connection.execute(states).fetchall()) == {
        done: "committed", back: "abandoned", kept: "issued",
    }  # fmt: skip


def test_one_that_was_heard_of_too_late_may_still_be_committed(world: World) -> None:
    ready(world, count=1)
    device = Device(party(0))
    first = world.exchange(device, Exchange(want=1, capabilities=CAPABILITIES))
    assert first is not None
    (lease,) = first.leases
    device.held.clear()
    world.now_s += 16.0
    world.exchange(device, Exchange())
    reply = world.exchange(device, Exchange(commits=(result(lease.lease),)))
    assert reply is not None
    assert reply.uploads == (lease.lease,)


def asked_by(
    world: World, numbers: range, held: dict[int, list[str]], want: int
) -> list[dispatch.Asked]:
    """What devices ask: the results of what they hold, and so many more."""
    return [
        dispatch.Asked(
            replace(party(number), max_leases=64),
            Exchange(
                commits=tuple(result(lease) for lease in held.get(number, ())),
                want=want,
                capabilities=None if held else CAPABILITIES,
            ),
            (f"key{number}".encode(), f"{world.now_s}".encode(), 1e9),
        )
        for number in numbers
    ]


def played(together: int, retried: bool) -> tuple[list[list[int]], list[list[object]]]:
    """Six devices that ask three times, so many requests a transaction: their tasks, all tables."""
    world = World(seed=5)
    world.window = 60
    job = world.submit(Shape(60, 1, "product"))
    for _ in range(15):
        world.generate(job)
    world.run(5.0)
    if retried:
        change = "update task set attempt = 1 where id in (select id from task order by id limit 2)"
        world.connection.execute(change)
    held: dict[int, list[str]] = {}
    given: list[list[int]] = []
    for _ in range(3):
        asked = asked_by(world, range(6), held, want=2)
        replies: list[ExchangeReply | None] = []
        for begin in range(0, len(asked), together):
            some = asked[begin : begin + together]
            replies += world.handle(lambda s, some=some: dispatch.signed_exchanges(s, some))
        for number, reply in enumerate(replies):
            assert reply is not None
            assert len(reply.uploads) == len(held.get(number, ()))
            held[number] = [lease.lease for lease in reply.leases]
            given.append([lease.task.affinity_key for lease in reply.leases])
        world.now_s += 1.0
    tables: list[list[object]] = [
        list(world.connection.execute(statement))
        for statement in (
            "select t.number, l.device, l.state, l.until_s from lease l"
            " join task t on t.id = l.task order by t.number",
            "select number, state from task order by number",
            "select nbytes, refs from blob order by hash",
            "select key, last_job, last_affinity from device order by key",
            "select until_s, key from nonce order by key, nonce",
        )
    ]
    world.close()
    return given, tables


@pytest.mark.parametrize("retried", [False, True])
def test_requests_that_are_answered_together_get_what_they_get_alone(retried: bool) -> None:
    assert played(6, retried) == played(1, retried)


def test_a_device_that_asks_twice_at_once_keeps_its_limit_and_a_copy_does_nothing(
    world: World,
) -> None:
    world.generate(ready(world, count=8))
    world.run(5.0)
    message = Exchange(want=3, capabilities=CAPABILITIES)
    limited = replace(party(0), max_leases=4)
    one = dispatch.Asked(limited, message, (b"key", b"one", 1e9))
    two = dispatch.Asked(limited, message, (b"key", b"two", 1e9))
    other = dispatch.Asked(party(1), message, (b"other", b"one", 1e9))
    found = world.handle(lambda s: dispatch.signed_exchanges(s, [one, two, one, other]))
    counts = [None if reply is None else len(reply.leases) for reply in found]
    assert counts == [3, 1, None, 3]
