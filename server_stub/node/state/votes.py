"""Second opinions: who gives one, when, and what happens when nobody does.

Owns: table `vote_call`. A result of a trusted device may be verified by an independent one: drawn
at random among all that qualify, some time later, so that two who plan together cannot arrange to
meet. When the drawn one does not come in time another is drawn; after two lease times, or with
nobody to draw, the lab's validator recomputes.
"""

from __future__ import annotations

from server_stub.node.state import leases, tasks, trust
from server_stub.node.state.words import RunWork, Step

__all__ = ["call", "called", "overdue", "waits"]


def call(step: Step, task: tasks.TaskRow, first: leases.LeaseRow) -> bool:
    """Asks for a second opinion on `first`; False when nobody can give one."""
    lease_s = max(step.rules.lease_floor_s, first.until_s - step.now_s)
    give_up_s = step.now_s + 2.0 * min(lease_s, step.rules.lease_cap_s)
    return _draw(step, task.id, first.device, give_up_s)


def _draw(step: Step, task: int, first_device: str, give_up_s: float) -> bool:
    choices = trust.independent(step, task, first_device)
    if not choices:
        return False
    device = step.rng.choice(choices)
    after_s = step.now_s + step.rng.uniform(*step.rules.vote_after_s)
    step.tx.change(
        "insert into vote_call values(?, ?, ?, ?, ?) on conflict(task) do update set"
        " device = excluded.device, after_s = excluded.after_s, until_s = excluded.until_s",
        (task, device, after_s, after_s + step.rules.lease_floor_s, give_up_s),
    )
    return True


def called(step: Step, device: str) -> int | None:
    """A task that this device was drawn for and may take now."""
    row = step.tx.one(
        "select c.task from vote_call c join task t on t.id = c.task where c.device = ?"
        " and c.after_s <= ? and t.state = 'checking' and not exists (select 1 from lease l"
        " where l.task = c.task and l.role = 'vote' and l.state in"
        " ('issued', 'committed', 'uploaded')) order by c.after_s limit 1",
        (device, step.now_s),
    )
    return None if row is None else int(row[0])


def waits(step: Step, task: int) -> bool:
    """Whether a second opinion on the task is asked for."""
    return step.tx.one("select 1 from vote_call where task = ?", (task,)) is not None


def overdue(step: Step) -> int:
    """Draws again where the drawn device has not come; gives up in favor of the validator."""
    rows = step.tx.rows(
        "select c.task, c.give_up_s from vote_call c where c.until_s < ? and not exists"
        " (select 1 from lease l where l.task = c.task and l.role = 'vote' and l.state in"
        " ('issued', 'committed', 'uploaded')) order by c.task limit 500",
        (step.now_s,),
    )
    for task_id, give_up_s in rows:
        task = tasks.load(step.tx, task_id)
        first = leases.in_states(step.tx, task_id, ("uploaded",))
        if task is None or task.state != "checking" or not first:
            step.tx.change("delete from vote_call where task = ?", (task_id,))
            continue
        if step.now_s < give_up_s and _draw(step, task_id, first[0].device, give_up_s):
            continue
        step.tx.change("delete from vote_call where task = ?", (task_id,))
        step.emit(RunWork("recompute", task_id, first[0].id))
    return len(rows)
