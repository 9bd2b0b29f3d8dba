"""Jobs that failed or were cancelled: what they keep, and that they go on from there."""

from __future__ import annotations

import pytest

from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import ended, jobs, leases, outcome, recover, tasks, verdicts
from server_stub.node.state.words import DiscardResults, FinishJob, RunWork, Step
from server_stub.node.store.sqlite import SqliteTx
from tests.simulation.invariants import check
from tests.simulation.world import Device, Shape, World, digest_of, party

__all__: list[str] = []

SHAPES = [
    Shape(8, 1, "product"),
    Shape(8, 1, "recompute"),
    Shape(4, 3, "recompute", fan=2),
    Shape(3, 4, "product", fan=1),
]


def column(world: World, statement: str) -> list[object]:
    return [row[0] for row in world.connection.execute(statement).fetchall()]


def begun(world: World, shape: Shape, executor: str = "grid", used: int = 3) -> str:
    """A job of which some tasks are used, and others in the middle of everything."""
    job = world.submit(shape, executor=executor)
    world.every(1.0, world.tick)
    world.every(1.0, world.local_engine)
    for number in range(3):
        world.device_turn(Device(party(number), slow_s=2.0))
    world.run(900.0, lambda: check(world), lambda: info(world, job).used >= used)
    assert used <= info(world, job).used < shape.count
    return job


def info(world: World, job: str) -> jobs.JobInfo:
    return jobs.info(SqliteTx(world.connection), job)


def resume(world: World, job: str, **constraints: object) -> bool:
    wanted = Constraints(sandbox="none", **constraints)  # type: ignore[arg-type]
    return world.handle(lambda step: ended.resume(step, job, wanted, 5, [True]))


def finish(world: World, job: str) -> None:
    world.run(4000.0, lambda: check(world), lambda: world.state_of(job) == "done")
    assert world.state_of(job) == "done"


def kept(world: World) -> ended.Kept | None:
    return ended.kept(SqliteTx(world.connection), "alice", "job", digest_of("job"))


@pytest.mark.parametrize("executor", ["grid", "local"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_was_verified_is_not_computed_again(world: World, shape: Shape, executor: str) -> None:
    job = begun(world, shape, executor)
    world.handle(lambda step: jobs.cancel(step, job))
    world.run(300.0, lambda: check(world))
    folds = set(column(world, "select task || blob || at_s from fold"))
    leases = set(column(world, "select id from lease"))
    assert len(folds) >= 3
    found = kept(world)
    assert found is not None
    assert (found.job, found.executor, found.count) == (job, executor, shape.count)
    assert resume(world, job)
    assert not resume(world, job), "it runs"
    finish(world, job)
    assert folds < set(column(world, "select task || blob || at_s from fold"))
    again = column(
        world, "select l.id from lease l join fold f on f.task = l.task where l.issued_s > f.at_s"
    )
    assert again == []
    assert leases < set(column(world, "select id from lease"))
    assert info(world, job).verified == shape.count
    assert world.connection.execute("select count(*) from blob where refs > 0").fetchone() == (0,)


def test_a_failed_job_goes_on_and_its_culprit_is_tried_again(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    verified = info(world, job).verified
    (number,) = world.connection.execute(
        "select number from task where state not in ('used', 'verified') limit 1"
    ).fetchone()
    world.handle(lambda step: jobs.fail(step, job, "disk_failed", number, "why"))
    check(world)
    assert column(world, "select number from task where state = 'failed'") == [number]
    assert resume(world, job)
    shown = info(world, job)
    assert (shown.state, shown.error_code, shown.finished_s) == ("running", "", None)
    assert shown.verified >= verified
    finish(world, job)


def verified_unfolded(world: World) -> tuple[str, int]:
    """A job with a result that is verified and not in its place yet, and that task's number."""
    job = world.submit(Shape(2, 1, "recompute"))
    real = world._carry_out
    world._carry_out = (  # type: ignore[method-assign]
        lambda effect: (
            None if isinstance(effect, RunWork) and effect.purpose != "prepare" else real(effect)
        )
    )
    world.every(1.0, world.tick)
    world.device_turn(Device(party(1)))
    uploaded = "select id from lease where state = 'uploaded'"
    world.run(900.0, lambda: check(world), lambda: bool(column(world, uploaded)))
    world._carry_out = real  # type: ignore[method-assign]

    def accept(step: Step) -> int:
        lease = leases.load(step.tx, str(column(world, uploaded)[0]))
        assert lease is not None
        task = tasks.load(step.tx, lease.task)
        assert task is not None
        votes = leases.votes(step.tx, lease.id)
        assert outcome.accept(step, task, lease.id, "agreement", votes, folded=False)
        return task.number

    return job, world.handle(accept)


def test_a_verified_result_is_folded_whether_its_job_has_ended_or_not(world: World) -> None:
    job, number = verified_unfolded(world)
    world.handle(lambda step: jobs.cancel(step, job))
    check(world)
    (task,) = column(world, "select id from task where state = 'verified'")
    world.handle(lambda step: verdicts.folded(step, int(str(task))))
    check(world)
    assert (info(world, job).used, info(world, job).verified) == (1, 1)
    assert column(world, "select number from task where state = 'used'") == [number]


def test_a_verified_result_is_folded_when_its_job_goes_on(world: World) -> None:
    job, _ = verified_unfolded(world)
    world.handle(lambda step: jobs.cancel(step, job))
    assert resume(world, job)
    assert info(world, job).verified == 1
    finish(world, job)
    assert info(world, job).verified_by.agreement == 1


def test_a_verified_result_that_cannot_be_folded_counts_no_more(world: World) -> None:
    job, number = verified_unfolded(world)
    assert info(world, job).verified_by.agreement == 1
    world.handle(lambda step: jobs.fail(step, job, "blob_missing", number, "gone"))
    check(world)
    assert info(world, job).verified == info(world, job).verified_by.agreement == 0
    assert column(world, "select number from task where state = 'failed'") == [number]
    assert resume(world, job)
    finish(world, job)


def test_all_used_and_failed_at_its_place_is_done_at_once(world: World) -> None:
    """As when something stood at the place of the result."""
    job = world.submit(Shape(2, 1, "product"), executor="local")
    world._finish = lambda job: None  # type: ignore[method-assign]
    world.every(1.0, world.tick)
    world.every(1.0, world.local_engine)
    world.run(60.0, lambda: check(world))
    assert info(world, job).used == 2
    world.handle(lambda step: jobs.fail(step, job, "array_exists", None, "there"))
    effects: list[object] = []

    def body(step: Step) -> bool:
        done = ended.resume(step, job, Constraints(), 0, [True])
        effects.extend(step.effects)
        return done

    assert world.handle(body)
    assert FinishJob(job) in effects


@pytest.mark.parametrize("code", sorted(ended.SPOILT))
def test_an_input_that_changed_spoils_what_was_verified(world: World, code: str) -> None:
    job = begun(world, Shape(4, 3, "recompute", fan=2))
    world.handle(lambda step: jobs.fail(step, job, code, None, "changed"))
    check(world)
    assert kept(world) is None
    assert not resume(world, job)
    assert ended.given_up(SqliteTx(world.connection)) == [job]
    assert world.connection.execute("select count(*) from blob where refs > 0").fetchone() == (0,)


def test_results_that_are_given_up_are_deleted_even_after_a_crash(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    world.handle(lambda step: jobs.cancel(step, job))
    assert ended.kept_jobs(SqliteTx(world.connection)) == [job]
    effects: list[object] = []

    def after_crash(step: Step) -> None:
        recover.recover(step)
        effects.extend(step.effects)

    world.handle(after_crash)
    assert DiscardResults(job) not in effects, "it is kept"
    world.handle(lambda step: ended.give_up(step, job))
    world.handle(after_crash)
    assert DiscardResults(job) in effects
    assert ended.kept_jobs(SqliteTx(world.connection)) == []


def test_what_ended_long_ago_is_given_up(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    world.handle(lambda step: jobs.cancel(step, job))
    assert world.handle(ended.outdated) == []
    world.now_s += world.rules.ended_kept_s + 1.0
    assert world.handle(ended.outdated) == [job]
    assert kept(world) is None


def test_the_new_submission_says_what_a_card_must_have(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    world.handle(lambda step: jobs.cancel(step, job))
    assert resume(world, job, min_memory_bytes=1 << 29)
    wanted = set(column(world, "select min_memory_bytes from task where state != 'used'"))
    assert wanted == {1 << 29}
    assert set(column(world, "select prio from task where state != 'used'")) == {-5}
    finish(world, job)


def test_a_job_whose_intermediates_are_gone_starts_anew(world: World) -> None:
    """As those that an earlier version of the node ended."""
    job = begun(world, Shape(4, 3, "recompute", fan=2))
    world.handle(lambda step: jobs.cancel(step, job))
    assert kept(world) is not None
    world.connection.execute("update task_output set blob = null where array is null")
    assert kept(world) is None


def test_other_content_and_other_owners_find_nothing(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    world.handle(lambda step: jobs.cancel(step, job))
    tx = SqliteTx(world.connection)
    assert ended.kept(tx, "alice", "job", digest_of("other")) is None
    assert ended.kept(tx, "bob", "job", digest_of("job")) is None
    assert ended.kept(tx, "alice", None, digest_of("job")) is None


def test_a_job_without_a_name_keeps_nothing(world: World) -> None:
    job = begun(world, Shape(8, 1, "recompute"))
    world.connection.execute("update job set name = null")
    world.handle(lambda step: jobs.cancel(step, job))
    assert ended.kept_jobs(SqliteTx(world.connection)) == []
