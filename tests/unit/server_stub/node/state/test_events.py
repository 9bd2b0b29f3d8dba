"""The diary: numbered without gaps, in order, with counters."""

from __future__ import annotations

from server_stub.node.state import events
from server_stub.node.state.words import Step
from server_stub.node.store.sqlite import SqliteTx, transaction
from tests.simulation.world import Shape, World

__all__: list[str] = []


def test_notes_of_one_step_are_numbered_in_order(world: World) -> None:
    job = world.submit(Shape(1), name="one")
    other = world.submit(Shape(1), name="two")

    def body(step: Step) -> None:
        events.note(step, job, "leased", 3)
        events.note(step, other, "leased", 1)
        events.note(step, job, "committed", 3, "x")
        step.sent_bytes[job] = 77

    world.handle(body)
    found = events.read(SqliteTx(world.connection), job, 2).events
    assert [(e.number, e.kind, e.task_index) for e in found] == [
        (3, "leased", 3), (4, "committed", 3),
    ]  # fmt: skip
    assert len(events.read(SqliteTx(world.connection), other, 0).events) == 3
    sent = world.connection.execute("select bytes_sent from job where id = ?", (job,)).fetchone()
    assert sent == (77,)


def test_a_note_for_a_job_that_is_gone_is_dropped(world: World) -> None:
    world.handle(lambda step: events.note(step, "job_gone", "leased"))
    assert world.connection.execute("select count(*) from event").fetchone() == (0,)


def test_the_steps_of_a_transaction_are_numbered_as_one(world: World) -> None:
    job = world.submit(Shape(1), name="one")
    before = world.connection.execute("select events from job").fetchone()[0]
    tx = SqliteTx(world.connection)
    steps = [Step(tx, float(at_s), world.rng, world.rules) for at_s in range(40)]
    for number, step in enumerate(steps):
        events.note(step, job, "leased", number)
        step.sent_bytes[job] = 10
    with transaction(world.connection) as tx:
        events.settle(tx, steps)
    found = events.read(SqliteTx(world.connection), job, before).events
    assert [(e.number, e.at_s, e.task_index) for e in found] == [
        (before + 1 + number, float(number), number) for number in range(40)
    ]
    row = world.connection.execute("select events, bytes_sent from job").fetchone()
    assert row == (before + 40, 400)
