"""What a lab node tells the coordinator is too coarse to be a number of a computation."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from gpugoblin.units import GIB, MIB
from server_stub.node.coordinator_link import MEMORY_STEP_BYTES, _demand
from server_stub.node.state.receipts import UNIT_DIGITS, units_of
from server_stub.node.state.words import Rules, Step
from server_stub.node.store.sqlite import connect, migrate, transaction

JOB = (
    "insert into job(id, owner, state, graph, content, inputs, numeric_class, assurance, executor,"
    " constraints, priority, limits, speculative, plan, tasks, used, created_s)"
    " values('job_a', 'ann', 'running', 'g', 'c', '', 'float32', 'full', 'grid', '', 0, '', 0, '',"
    " 9, 2, 0.0)"
)
TASK = (
    "insert into task(public, job, number, state, executor, prio, affinity, graph, verify,"
    " verify_flops, flops, bytes_moved, memory_bound_bytes, min_memory_bytes, min_sandbox,"
    " slot_bytes, waits, consumers_left, since_s) values('task_a', 'job_a', ?, 'ready', 'grid', 0,"
    " 0, 'g', '', 0, 0, 0, ?, 0, 0, 0, 0, 0, 0.0)"
)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ((), 0),
        ((10_254_976,), 0),
        ((5 * GIB + 2_158_528, 3 * GIB + 10_254_976), 3 * GIB),
        ((3 * GIB - 1,), 3 * GIB - 256 * MIB),
    ],
)
def test_memory_in_whole_steps(tmp_path: Path, bounds: tuple[int, ...], told: int) -> None:
    with closing(connect(tmp_path / "node.sqlite")) as connection:
        migrate(connection)
        with transaction(connection) as tx:
            tx.change(JOB)
            for number, bound in enumerate(bounds):
                tx.change(TASK, (number, bound))
            assert _demand(tx) == (7, told)
    assert told % MEMORY_STEP_BYTES == 0


def test_units_in_few_digits(tmp_path: Path) -> None:
    rules = Rules(catalog_hash="")
    with closing(connect(tmp_path / "node.sqlite")) as connection:
        migrate(connection)
        with transaction(connection) as tx:
            step = Step(tx, 0.0, random.Random(1), rules)
            for rows, inner, columns in ((10_007, 11, 30_011), (1, 1, 1), (4096, 4096, 4096)):
                flops = 2 * rows * inner * columns
                units = units_of(step, flops, 0)
                assert units == float(f"{units:.{UNIT_DIGITS}g}")
                assert abs(units - max(flops / 1e12, 1e-9)) <= 0.005 * units
                assert units > 0
            assert units_of(step, 0, 10_254_976) == 0.00103
