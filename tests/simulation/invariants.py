"""What must hold after every event, read from the database alone."""

from __future__ import annotations

from tests.simulation.world import World

__all__ = ["check", "honest_result"]


def check(world: World) -> None:
    """Raises AssertionError naming the invariant that broke."""
    _used_once(world)
    _references(world)
    _readiness(world)
    _diary(world)
    _credits(world)
    _truth(world)
    _leases(world)
    _dtypes(world)


def _all(world: World, statement: str) -> list[tuple[object, ...]]:
    return world.connection.execute(statement).fetchall()


def _used_once(world: World) -> None:
    for job, used, verified in _all(world, "select id, used, verified from job"):
        in_state = world.connection.execute(
            "select count(*) from task where job = ? and state = 'used'", (job,)
        ).fetchone()[0]
        folds = world.connection.execute(
            "select count(*) from fold where job = ?", (job,)
        ).fetchone()[0]
        done = world.connection.execute(
            "select count(*) from task where job = ? and state in ('used', 'verified')", (job,)
        ).fetchone()[0]
        assert used == in_state == folds, "used, states and folds differ"
        assert verified == done or world.is_given_up(str(job)), (
            "verified counts something else than verified tasks"
        )


def _references(world: World) -> None:
    counted: dict[object, int] = {}
    for statement in (
        "select blob from task_input where blob is not null",
        "select blob from vote where held = 1",
        "select blob from task_output where blob is not null and array is null",
        "select blob from lent",
    ):
        for (blob,) in _all(world, statement):
            counted[blob] = counted.get(blob, 0) + 1
    rows = {blob: refs for blob, refs in _all(world, "select hash, refs from blob")}
    live = {blob: refs for blob, refs in rows.items() if refs}
    assert live == counted, "references are miscounted"
    for (blob,) in _all(world, "select distinct blob from task_input where blob is not null"):
        assert blob in world.files, "an input is gone while a task needs it"
    for (blob,) in _all(
        world,
        "select v.blob from vote v join lease l on l.id = v.lease"
        " where v.held = 1 and l.state = 'uploaded'",
    ):
        assert blob in world.files, "an uploaded result is gone before its verdict"


def _readiness(world: World) -> None:
    broken = _all(
        world,
        "select t.id from task t join job j on j.id = t.job where t.state = 'ready' and exists"
        " (select 1 from task_input i left join task p on p.id = i.producer where i.task = t.id"
        " and ((i.blob is null and (t.executor = 'grid' or i.producer is not null))"
        " or (j.speculative = 0 and p.state is not null"
        " and p.state not in ('verified', 'used'))))",
    )
    assert not broken, "a task is ready without its inputs"
    ahead = _all(
        world,
        "select t.id from task t join job j on j.id = t.job where t.depth > j.speculative",
    )
    assert not ahead, "a task runs further ahead than its job allows"
    early = _all(
        world,
        "select t.id from task t join task_input i on i.task = t.id"
        " join task p on p.id = i.producer where t.state in ('verified', 'used')"
        " and p.state not in ('verified', 'used')",
    )
    assert not early, "a task is verified before its inputs"


def _diary(world: World) -> None:
    for job, count in _all(world, "select id, events from job"):
        numbers = world.connection.execute(
            "select count(*), coalesce(max(number), 0) from event where job = ?", (job,)
        ).fetchone()
        assert numbers == (count, count), "the diary has gaps"


def _credits(world: World) -> None:
    wrong = _all(
        world,
        "select o.lease from outbox o join lease l on l.id = o.lease"
        " where l.state not in ('accepted', 'late')",
    )
    assert not wrong, "a result that was not accepted is credited"
    for job, credits in _all(world, "select id, credits from job"):
        booked = world.connection.execute(
            "select coalesce(sum(o.units), 0) from outbox o join lease l on l.id = o.lease"
            " where l.job = ?",
            (job,),
        ).fetchone()[0]
        assert abs(float(str(credits)) - booked) < 1e-12, "credits are not the receipts' sum"


def honest_result(world: World, job: str, number: int) -> str:
    """The base of what task `number` has to be, from the plan alone."""
    known = world.honest.get((job, number))
    if known is not None:
        return known
    shape = world.shapes[job]
    parts = list(shape.read(number))
    parts += [honest_result(world, job, source) for source in shape.sources(number)]
    from tests.simulation.world import digest_of

    found = world.honest[job, number] = digest_of(f"t{number}({','.join(parts)})")[:16]
    return found


def _truth(world: World) -> None:
    for job, number, blob in _all(
        world,
        "select t.job, t.number, f.blob from fold f join task t on t.id = f.task",
    ):
        right = honest_result(world, str(job), int(str(number)))
        assert world.base_of(str(blob)) == right, "a wrong value is used"


def _leases(world: World) -> None:
    doubled = _all(
        world,
        "select task from lease where state in ('issued', 'committed') and role = 'first'"
        " group by task having count(*) > 1",
    )
    assert not doubled, "two live leases of one task"
    lost = _all(
        world,
        "select t.id from task t where t.state = 'leased' and not exists"
        " (select 1 from lease l where l.task = t.id and l.state in ('issued', 'committed'))",
    )
    assert not lost, "a leased task without a lease"


def _dtypes(world: World) -> None:
    wrong = _all(
        world,
        "select l.id from lease l join task t on t.id = l.task join device d on d.key = l.device"
        " where t.dtypes & ~d.dtypes != 0",
    )
    assert not wrong, "a device was given a task of a dtype that it does not have"
