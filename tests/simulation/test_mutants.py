"""Bugs planted on purpose: the simulator must find each of them within a few seeds.

Every mutant names the seeds under which it dies. A mutant that survives means that the invariants
no longer see that kind of bug.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from server_stub.node.state import (
    blobs,
    ended,
    events,
    leases,
    outcome,
    receipts,
    recover,
    tasks,
    trust,
    verdicts,
    votes,
)
from server_stub.node.state.words import RunWork, Step
from tests.simulation.cast import Device, Shape, party
from tests.simulation.invariants import check
from tests.simulation.test_simulation import interrupt, mixed, play
from tests.simulation.world import World, trusted

__all__: list[str] = []

Patch = Callable[[pytest.MonkeyPatch], None]


def collude(seed: int) -> None:
    """One owner's two devices tell the same lie about every task, and nobody else comes."""
    with closing(World(seed)) as world:
        for device in (
            Device(party(4), lies=1.0, lie="same"),
            Device(party(5, owner=4), lies=1.0, lie="same"),
        ):
            trusted(world, device)
            world.device_turn(device)
        job = world.submit(Shape(4, 1, "recompute"))
        world.every(1.0, world.tick)
        world.run(900.0, lambda: check(world), lambda: world.state_of(job) == "done")
        assert world.state_of(job) == "done"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, and seeds that are tried until one finds it."""

    name: str
    plant: Patch
    seeds: tuple[int, ...]
    stage: Callable[[int], object] = play


def _no_verification(patch: pytest.MonkeyPatch) -> None:
    def decide(step: Step, task: tasks.TaskRow) -> None:
        found = leases.in_states(step.tx, task.id, ("uploaded",))
        if task.state == "checking" and found:
            result = leases.votes(step.tx, found[0].id)
            outcome.accept(step, task, found[0].id, "recompute", result, folded=True)

    patch.setattr(verdicts, "decide", decide)


def _votes_of_one_owner(patch: pytest.MonkeyPatch) -> None:
    def independent(step: Step, task: int, device: str) -> list[str]:
        rows = step.tx.rows("select key from device where key != ? order by key", (device,))
        return [row[0] for row in rows]

    patch.setattr(trust, "independent", independent)
    patch.setattr(trust, "is_trusted", lambda step, device, work: True)


def _used_without_guard(patch: pytest.MonkeyPatch) -> None:
    real = outcome.use

    def use(step: Step, task: tasks.TaskRow) -> bool:
        done = real(step, task)
        step.tx.change("update job set used = used + 1 where id = ?", (task.job,))
        return done

    patch.setattr(outcome, "use", use)


def _expiry_loses_the_task(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases, "again", lambda step, task, lease: None)


def _late_result_overwrites(patch: pytest.MonkeyPatch) -> None:
    def credit_late(step: Step, task: tasks.TaskRow) -> None:
        for (lease,) in step.tx.rows(
            "select id from lease where task = ? and state = 'late'", (task.id,)
        ):
            for blob, _ in leases.votes(step.tx, lease):
                step.tx.change("update fold set blob = ? where task = ?", (blob, task.id))

    patch.setattr(leases, "credit_late", credit_late)


def _late_result_is_credited_blindly(patch: pytest.MonkeyPatch) -> None:
    real = leases.close

    def close(step: Step, lease: leases.LeaseRow, state: str, cause: str = "") -> None:
        real(step, lease, state, cause)
        if state == "rejected":
            receipts.credit(step, lease.id, lease.job, 1000, 100)

    patch.setattr(leases, "close", close)


def _no_validator(patch: pytest.MonkeyPatch) -> None:
    real = World._carry_out

    def carry_out(world: World, effect: Any) -> None:
        if not (isinstance(effect, RunWork) and effect.purpose == "recompute"):
            real(world, effect)

    patch.setattr(World, "_carry_out", carry_out)


def _credit_twice(patch: pytest.MonkeyPatch) -> None:
    real = receipts.credit

    def credit(step: Step, lease: str, job: str, flops: int, bytes_moved: int) -> None:
        real(step, lease, job, flops, bytes_moved)
        step.tx.change("update job set credits = credits + 1e-9 where id = ?", (job,))

    patch.setattr(receipts, "credit", credit)


def _no_cascade(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcome, "withdraw", lambda step, task, keep=None: 0)


def _depth_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def offer(step: Step, task_id: int, named: Sequence[tuple[str, int]]) -> None:
        task = tasks.load(step.tx, task_id)
        assert task is not None
        for slot, (blob, nbytes) in enumerate(named):
            tasks.fill(step, dataclasses.replace(task, state="used"), slot, blob, nbytes)

    patch.setattr(verdicts, "_offer_speculatively", offer)


def _inputs_need_not_be_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tasks, "inputs_verified", lambda tx, task: True)


def _references_leak(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases, "drop_votes", lambda step, lease: None)


def _blob_is_dropped_early(patch: pytest.MonkeyPatch) -> None:
    real = blobs.release

    def release(step: Step, blob: str) -> None:
        real(step, blob)
        real(step, blob)

    patch.setattr(blobs, "release", release)


def _restart_forgets_verdicts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recover, "_resume", lambda step, job: None)


def _restart_forgets_local_leases(patch: pytest.MonkeyPatch) -> None:
    real = Step.emit

    def recover_nothing(step: Step) -> None:
        for job in step.tx.rows("select id from job where state = 'running'"):
            recover._resume(step, job[0])

    patch.setattr("tests.simulation.world.recover", recover_nothing)
    assert real is Step.emit


def _diary_skips(patch: pytest.MonkeyPatch) -> None:
    real = events.note

    def note(step: Step, job: str, kind: str, number: int | None = None, detail: str = "") -> None:
        if kind == "expired":
            step.tx.change("update job set events = events + 1 where id = ?", (job,))
        real(step, job, kind, number, detail)

    patch.setattr(events, "note", note)


def _nobody_gives_up_on_votes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(votes, "overdue", lambda step: 0)


def _stale_check_counts(patch: pytest.MonkeyPatch) -> None:
    def checked(step: Step, task_id: int, lease: str, reply: Any) -> None:
        task = tasks.load(step.tx, task_id)
        if task is not None and task.state == "checking":
            votes_ = leases.votes(step.tx, lease)
            outcome.accept(step, task, lease, "product", votes_, folded=True)

    patch.setattr(verdicts, "checked", checked)


def _going_on_forgets_what_was_used(patch: pytest.MonkeyPatch) -> None:
    real = ended.resume

    def resume(step: Step, job: str, *rest: Any) -> bool:
        done = real(step, job, *rest)
        for (task,) in step.tx.rows("select id from task where job = ? and state = 'used'", (job,)):
            step.tx.change("update task set state = 'ready', winner = null where id = ?", (task,))
        return done

    patch.setattr(ended, "resume", resume)


def _ending_drops_intermediates(patch: pytest.MonkeyPatch) -> None:
    real = ended.end_tasks

    def end_tasks(step: Step, job: str, state: str, culprit: int | None) -> None:
        real(step, job, state, culprit)
        ended._drop_outputs(step, job, "('')")

    patch.setattr(ended, "end_tasks", end_tasks)


def _dtypes_are_ignored(patch: pytest.MonkeyPatch) -> None:
    for name in ("_TAKE", "_SOME_NEAR", "_SOME_FIRST"):
        statement = getattr(leases, name)
        patch.setattr(leases, name, statement.replace("t.dtypes & ~? = 0", "? >= 0"))


def _interrupted(seed: int) -> None:
    play(seed, interrupt)


MUTANTS = (
    Mutant("no verification", _no_verification, (1, 2, 5)),
    Mutant("votes of one owner", _votes_of_one_owner, (1, 2, 3), collude),
    Mutant("used without guard", _used_without_guard, (1,)),
    Mutant("expiry loses the task", _expiry_loses_the_task, (1, 2)),
    Mutant("late result overwrites", _late_result_overwrites, tuple(range(1, 24))),
    Mutant("rejected result is credited", _late_result_is_credited_blindly, (1, 2)),
    Mutant("no validator", _no_validator, (1, 2)),
    Mutant("credit twice", _credit_twice, (1,)),
    Mutant("no cascade", _no_cascade, (2, 10, 22, 11, 23, 26, 34)),
    Mutant("depth is ignored", _depth_is_ignored, (6, 18, 3)),
    Mutant("inputs need not be verified", _inputs_need_not_be_verified, (2, 10, 22, 26, 34)),
    Mutant("references leak", _references_leak, (1,)),
    Mutant("blob is dropped early", _blob_is_dropped_early, (1, 2)),
    Mutant("restart forgets verdicts", _restart_forgets_verdicts, (2, 5, 8, 11)),
    Mutant("restart forgets local leases", _restart_forgets_local_leases, (14, 35, 56)),
    Mutant("diary skips", _diary_skips, (1, 2)),
    Mutant("nobody gives up on votes", _nobody_gives_up_on_votes, tuple(range(1, 24))),
    Mutant(
        "going on forgets what was used", _going_on_forgets_what_was_used, (0, 1, 2), _interrupted
    ),
    Mutant("ending drops intermediates", _ending_drops_intermediates, (2, 3, 6, 10), _interrupted),
    Mutant("dtypes are ignored", _dtypes_are_ignored, (0, 1), mixed),
    Mutant("a refused check counts", _stale_check_counts, (4, 8, 12, 16)),
)


def test_two_devices_of_one_owner_verify_nothing_together() -> None:
    collude(1)


# Every fourth in the quick suite; they take minutes together.
SOME = [
    pytest.param(one, id=one.name, marks=[pytest.mark.slow] if number % 4 else [])
    for number, one in enumerate(MUTANTS)
]


@pytest.mark.parametrize("mutant", SOME)
def test_the_simulator_finds(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    for seed in mutant.seeds:
        try:
            mutant.stage(seed)
        except Exception:
            return
    pytest.fail(f"no seed of {mutant.seeds} finds {mutant.name!r}")
