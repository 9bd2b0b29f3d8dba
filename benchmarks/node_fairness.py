"""Turns between 20 users with 200 jobs, on the lab node's state machine and its database.

The first user comes first, with 181 jobs; 19 others with one job each. Each turn is one transaction
that leases one task. Measured are the longest wait of a user with work, in turns of the others, and
what a turn costs beside a turn of a user who is alone.
"""

from __future__ import annotations

import random
import statistics
import time
from contextlib import closing
from typing import Any

from benchmarks.node_leases import planned
from benchmarks.record import Row, row
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.dtypes import needs_of
from gpugoblin.graph.serialize import encode, graph_hash
from gpugoblin.wire.messages.job import PlanReply
from gpugoblin.wire.messages.task import Constraints
from server_stub.node.state import dispatch, events, jobs, tasks
from server_stub.node.state.words import Rules, Step
from server_stub.node.store.sqlite import connect, migrate, transaction

__all__ = ["measure"]

USERS = 20
JOBS = 200
TASKS = 20
ROUNDS = 5


def _submit(step: Step, graph: Any, owner: str, name: str) -> None:
    plan = PlanReply(
        kind="bench", tasks=TASKS, tile=(), flops=0, verify_flops=0, bytes_in=0, bytes_out=0,
        memory_bound_bytes=0, node_memory_bytes=0, estimate_s=0.0, alone_s=0.0, gain=1.0,
        executor="local",
    )  # fmt: skip
    graph_name = str(graph_hash(graph))
    new = jobs.NewJob(
        owner=owner, name=name, graph=encode(graph), graph_hash=graph_name,
        operators={"matmul": 1}, dtypes=needs_of(graph).mask(), content="0" * 64, inputs=(),
        outputs=(), numeric_class="float32", assurance="full", executor="local",
        constraints=Constraints(sandbox="none"), priority=0, block_axis=None, limits="{}",
        speculative=0, plan=plan,
    )  # fmt: skip
    job, _ = jobs.submit(step, new)
    tasks.generate(step, job, 0, [(task, graph_name, 0) for task in planned(graph, TASKS)])


def _play(users: int) -> tuple[int, float]:
    """The longest wait in turns, and CPU microseconds a turn."""
    builder = GraphBuilder()
    spec = TensorSpec("float32", (64, 64))
    graph = builder.build(
        (builder.add("matmul", (builder.input(spec), builder.input(spec))),)
    )  # fmt: skip
    needs = needs_of(graph).mask()
    rng, rules = random.Random(1), Rules(catalog_hash="0" * 64)
    with closing(connect(":memory:")) as connection:
        migrate(connection)

        def handle(body: Any) -> Any:
            with transaction(connection) as tx:
                step = Step(tx, time.time(), rng, rules)
                tx.at_end(events.settle, step)
                return body(step)

        for number in range(JOBS):
            owner = f"user{max(0, number - (JOBS - users))}"
            handle(lambda step, o=owner, n=number: _submit(step, graph, o, f"job{n}"))
        left = {f"user{number}": TASKS for number in range(users)}
        left["user0"] = TASKS * (JOBS - users + 1)
        waits = dict.fromkeys(left, 0)
        longest, spent_s, turns = 0, 0.0, users * TASKS
        for _ in range(turns):
            began_s = time.process_time()
            (lease,) = handle(lambda step: dispatch.lease_local(step, 1, needs))
            spent_s += time.process_time() - began_s
            owner = connection.execute(
                "select owner from job where id = ?", (lease.job,)
            ).fetchone()[0]
            left[owner] -= 1
            for name in waits:
                waits[name] = 0 if name == owner or not left[name] else waits[name] + 1
                longest = max(longest, waits[name])
    return longest, spent_s / turns * 1e6


def measure() -> list[Row]:
    """Waits and costs; medians of five rounds."""
    many = [_play(USERS) for _ in range(ROUNDS)]
    alone_us = statistics.median(_play(1)[1] for _ in range(ROUNDS))
    longest = max(wait for wait, _ in many)
    cost_us = statistics.median(cost for _, cost in many)
    return [
        row(
            "longest wait of a user with work: 20 users, 200 jobs", longest, "turns", bar=USERS,
            better="lower", note="181 of the jobs came first, of one user",
        ),
        row(
            "a turn among 20 users", round(cost_us, 1), "us CPU", better="lower",
            peer="a user who is alone", peer_value=round(alone_us, 1),
            note="one transaction that leases one task, database in memory",
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    for one in measure():
        print(f"{one.what}: {one.value} {one.unit} (bar {one.bar}); {one.peer} {one.peer_value}")
