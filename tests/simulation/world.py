"""A lab node's state machine in a simulated world: real SQLite, everything else made up.

Owns: virtual time, a network that loses and repeats, devices of every character, workers that know
the truth, and a node that may be killed before any statement. One seed decides all of it.

A blob is the name of a text. The text of an honest result is `base|variant`: honest devices differ
in the variant (rounding), a lie differs in the base.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from gpugoblin.ids import BlobHash
from gpugoblin.wire.messages.lease import Abandon, Exchange, ExchangeReply
from gpugoblin.wire.messages.task import (
    BlobRef,
    Constraints,
    Counters,
    Result,
)
from server_stub.node import answers
from server_stub.node.items import build
from server_stub.node.state import (
    arrays,
    blobs,
    dispatch,
    events,
    jobs,
    leases,
    tasks,
    verdicts,
    votes,
)
from server_stub.node.state.recover import recover
from server_stub.node.state.words import (
    DropBlob,
    Effect,
    FinishJob,
    JobChanged,
    Rules,
    RunWork,
    Step,
    StopLease,
)
from server_stub.node.store.protocol import Row, Tx, Value
from server_stub.node.store.sqlite import SqliteTx, connect, migrate
from server_stub.node.work import (
    BlobInput,
    Check,
    Checked,
    Compare,
    Compute,
    Computed,
    Fold,
    Folded,
    Prepare,
    Prepared,
    Recompute,
    RegionInput,
    Reply,
    Work,
)
from tests.simulation.cast import (
    CAPABILITIES,
    CATALOG,
    ENGINE,
    PLAN,
    Device,
    Shape,
    digest_of,
    party,
)

T = TypeVar("T")


class Killed(BaseException):
    """The node's process is gone, in the middle of whatever it was doing."""


class KillableTx:
    """A transaction that may end the process before any statement."""

    def __init__(self, tx: Tx, strike: Callable[[], None]) -> None:
        self._tx = tx
        self._strike = strike

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[Row]:
        self._strike()
        return self._tx.rows(statement, parameters)

    def one(self, statement: str, parameters: Sequence[Value] = ()) -> Row | None:
        self._strike()
        return self._tx.one(statement, parameters)

    def change(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        self._strike()
        return self._tx.change(statement, parameters)


@dataclass
class World:
    """The node, its workers and the clock. `kills`: probability before each statement."""

    seed: int
    kills: float = 0.0
    loses: float = 0.0
    repeats: float = 0.0
    rules: Rules = field(default_factory=lambda: Rules(catalog_hash=CATALOG))
    window: int = 12

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now_s = 1_000_000.0
        self.connection = connect(":memory:")
        migrate(self.connection)
        self.files: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.shapes: dict[str, Shape] = {}
        self.honest: dict[tuple[str, int], str] = {}
        self.under_way: set[tuple[str, int, str]] = set()
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.statements = 0
        self.kill_count = 0
        self.finished: list[str] = []
        self.stopped: list[str] = []
        self.written: dict[tuple[int, int], str] = {}

    def close(self) -> None:
        self.connection.close()

    # The node.

    def _strike(self) -> None:
        self.statements += 1
        if self.kills and self.rng.random() < self.kills:
            raise Killed

    def handle(self, handler: Callable[[Step], T], *, brief: bool = False) -> T:
        """One transaction and its effects. A kill rolls back, and the node starts again."""
        try:
            return self._handle(handler)
        except Killed:
            self._restart()
            raise

    def _handle(self, handler: Callable[[Step], T]) -> T:
        connection = self.connection
        connection.execute("begin immediate")
        try:
            tx = KillableTx(SqliteTx(connection), self._strike)
            step = Step(tx, self.now_s, self.rng, self.rules)
            result = handler(step)
            events.settle(tx, [step])
            self._strike()
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
        # Committed: the caller may still never hear of it.
        self._strike()
        for effect in step.effects:
            self._carry_out(effect)
        return result

    def _restart(self) -> None:
        self.kill_count += 1
        self.under_way.clear()
        self.life = getattr(self, "life", 0) + 1
        while True:
            try:
                self._handle(recover)
                return
            except Killed:
                self.kill_count += 1

    def try_handle(self, handler: Callable[[Step], T]) -> T | None:
        """The same for background loops, which go on after a restart."""
        try:
            return self.handle(handler)
        except Killed:
            return None

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case RunWork():
                key = (effect.purpose, effect.task, effect.lease)
                if key not in self.under_way:
                    self.under_way.add(key)
                    life = getattr(self, "life", 0)
                    self.later(self.rng.uniform(0.1, 3.0), lambda: self._work(effect, life))
            case StopLease():
                self.stopped.append(effect.lease)
            case DropBlob():
                self._strike()
                self.files.pop(effect.blob, None)
            case FinishJob():
                self.later(0.0, lambda: self._finish(effect.job))
            case JobChanged() | _:
                pass

    def _finish(self, job: str) -> None:
        self.try_handle(lambda step: jobs.finish(step, job))

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now_s + delay_s, next(self.order), action))

    # The workers: they know the truth.

    def _work(self, effect: RunWork, life: int) -> None:
        if life != getattr(self, "life", 0):
            return
        self.under_way.discard((effect.purpose, effect.task, effect.lease))
        item = build(SqliteTx(self.connection), effect)
        if item is None:
            return
        reply = self._answer(effect, item)
        kept = answers.kept_blobs(item, reply)

        def body(step: Step) -> bool:
            if not all(blob in self.files for blob in kept):
                return False
            answers.apply(step, effect, reply)
            return True

        if self.try_handle(body) is False:
            self._carry_out(effect)

    def store(self, text: str) -> str:
        """Puts a blob on disk."""
        name = digest_of(text)
        self.files[name] = text
        self.texts[name] = text
        return name

    def base_of(self, blob: str) -> str:
        return self.texts[blob].partition("|")[0]

    def honest_base(self, task: int, inputs: Sequence[Any]) -> str:
        """What the task's result is, from what its inputs are."""
        parts = []
        for source in inputs:
            if isinstance(source, RegionInput):
                parts.append(f"r{source.box.start}")
            else:
                assert isinstance(source, BlobInput)
                parts.append(self.base_of(source.blob))
        row = self.connection.execute("select number from task where id = ?", (task,)).fetchone()
        return digest_of(f"t{row[0]}({','.join(parts)})")[:16]

    def _answer(self, effect: RunWork, item: Work) -> Reply:
        match item:
            case Prepare():
                blob = self.store(f"r{item.source.box.start}|packed")
                return Prepared(item.work, blob, 8)
            case Compute():
                base = self.honest_base(effect.task, item.inputs)
                blob = self.store(f"{base}|local")
                checked = item.verify == "product"
                return Computed(
                    item.work, ("",) * len(item.inputs), (blob,), (8,), checked, "", "engine",
                    "cpu", "k" * 64, "full", 0.1, 1000,
                )  # fmt: skip
            case Check():
                base = self.honest_base(effect.task, item.inputs)
                right = all(self.base_of(one.blob) == base for one in item.committed)
                self._assert_there(item.committed)
                return Checked(item.work, right, "" if right else "product_rejected", 0.0, 1.0)
            case Recompute():
                base = self.honest_base(effect.task, item.inputs)
                self._assert_there(item.committed)
                right = bool(item.committed) and self.base_of(item.committed[0].blob) == base
                own = () if right else (self.store(f"{base}|validator"),)
                code = "" if right else "recompute_differs"
                return Checked(item.work, right, code, 0.0, 1.0, own, "validator")
            case Compare():
                self._assert_there((*item.first, *item.second))
                same = self.base_of(item.first[0].blob) == self.base_of(item.second[0].blob)
                return Checked(item.work, same, "" if same else "no_agreement", 0.0, 1.0)
            case Fold():
                self._assert_there(item.committed)
                assert item.committed
                return Folded(item.work)
            case _:
                raise TypeError(item)

    def _assert_there(self, committed: Sequence[BlobInput]) -> None:
        for one in committed:
            assert one.blob in self.files, "the bytes of a result that is judged are gone"

    # Jobs.

    def submit(
        self, shape: Shape, *, executor: str = "grid", speculative: int = 0, name: str = "job",
        numeric_class: str = "float32", owner: str = "alice", priority: int = 0,
        parent: str | None = None,
    ) -> str:  # fmt: skip
        import msgspec

        plan = msgspec.structs.replace(PLAN, tasks=shape.count)
        source = arrays.NewArray(
            f"array_{name}", owner, "raw", "raw", "/in", "", 0, "float32", (1000,), "0" * 64,
            4000, True, False,
        )  # fmt: skip
        output = arrays.NewArray(
            f"array_{name}out", owner, "node", "npy", "/out", "", 0, "float32",
            (shape.count * 2,), "0" * 64, 0, False, True, "/final",
        )  # fmt: skip
        new = jobs.NewJob(
            owner=owner, name=name, graph=b"graph", graph_hash="9" * 64,
            operators={"matmul": 1}, dtypes=shape.dtypes, content=digest_of(name),
            inputs=(source.id,), outputs=(output,), numeric_class=numeric_class, assurance="full",
            executor=executor,
            constraints=Constraints(sandbox="none"), priority=priority, block_axis=None,
            limits="{}", speculative=speculative, plan=plan, parent=parent,
        )  # fmt: skip

        def begin(step: Step) -> str:
            arrays.add(step, source)
            jobs.add_graph(step, shape.graph, b"tile", {"matmul": 1}, shape.dtypes)
            return jobs.submit(step, new)[0]

        while True:
            try:
                job = self.handle(begin)
                break
            except Killed:
                row = self.connection.execute(
                    "select id from job where name = ?", (name,)
                ).fetchone()
                if row is not None:
                    job = row[0]
                    break
        self.shapes[job] = shape
        return job

    def generate(self, job: str) -> None:
        """The generator's tick for one job."""
        shape = self.shapes[job]
        row = self.connection.execute("select cursor from job where id = ?", (job,)).fetchone()
        ahead = self.connection.execute(
            "select count(*) from task where job = ? and state in ('waiting', 'ready')", (job,)
        ).fetchone()[0]
        if row is None or row[0] >= shape.count or ahead >= self.window:
            return
        last = min(shape.count, row[0] + 4)
        batch = [
            (shape.task(index), shape.graph, shape.consumers(index))
            for index in range(row[0], last)
        ]
        self.try_handle(lambda step: tasks.generate(step, job, row[0], batch))

    def tick(self) -> None:
        """The node's timer."""

        def body(step: Step) -> None:
            leases.expire(step)
            votes.overdue(step)
            verdicts.stuck(step)
            gone = [
                row[0]
                for row in step.tx.rows("select hash from blob where refs = 0")
                if row[0] not in self.files
            ]
            blobs.forget(step, gone)

        self.try_handle(body)
        for job in list(self.shapes):
            self.generate(job)

    def local_engine(self) -> None:
        """The lab's own engine takes and computes what is ready for it."""
        issued = self.try_handle(lambda step: dispatch.lease_local(step, 2, ENGINE))
        for lease in issued or []:
            effect = RunWork("compute", lease.task, lease.lease)
            self._carry_out(effect)

    # Devices.

    def exchange(self, device: Device, message: Exchange) -> ExchangeReply | None:
        """One request over the bad network; None when no answer came back."""
        if self.rng.random() < self.loses:
            return None
        message = msgspec.structs.replace(message, holding=tuple(sorted(device.held)))
        times = 2 if self.rng.random() < self.repeats else 1
        reply = None
        for _ in range(times):
            try:
                reply = self.handle(lambda step: dispatch.exchange(step, device.party, message))
            except Killed:
                return None
        if reply is None or self.rng.random() < self.loses:
            return None
        device.held |= {lease.lease for lease in reply.leases}
        device.held -= {*reply.cancelled, *(each.lease for each in message.abandons)}
        return reply

    def device_turn(self, device: Device, want: int = 2) -> None:
        """A device asks for work and computes what it gets."""
        if device.gone:
            return
        known = None if device.known else device.capabilities
        reply = self.exchange(device, Exchange(want=want, capabilities=known))
        self.later(self.rng.uniform(1.0, 6.0), lambda: self.device_turn(device, want))
        if reply is None:
            return
        device.known = True
        for lease in reply.leases:
            if self.rng.random() < device.vanishes:
                device.held.discard(lease.lease)
                continue
            if self.rng.random() < device.abandons:
                gives_back = Exchange(abandons=(Abandon(lease.lease, "owner"),))
                self.later(2.0, lambda m=gives_back: self.exchange(device, m))  # type: ignore[misc]
                continue
            delay_s = self.rng.expovariate(1.0 / device.slow_s)
            self.later(delay_s, lambda one=lease: self._result(device, one))  # type: ignore[misc]

    def _result(self, device: Device, lease: Any) -> None:
        number = self.connection.execute(
            "select number, id from task where public = ?", (lease.task.task,)
        ).fetchone()
        if number is None:
            return
        parts = []
        for source in lease.task.inputs:
            text = self.texts[source.blob]
            parts.append(text.partition("|")[0])
        base = digest_of(f"t{number[0]}({','.join(parts)})")[:16]
        if self.rng.random() < device.lies:
            base = f"{device.lie}{number[0]}"
        text = f"{base}|{device.party.owner}"
        blob = digest_of(text)
        self.texts[blob] = text
        self._deliver(device, lease.lease, blob, 3)

    def _deliver(self, device: Device, lease: str, blob: str, tries: int) -> None:
        """Commit, upload, say so; each step again where no answer came."""
        result = Result(
            lease=lease, outputs=(BlobRef(BlobHash(blob), 8),),  # type: ignore[arg-type]
            engine_build="b1", driver="cpu", kernel_set="1" * 64, sandbox_level="full",
            counters=Counters(0.1, 100), claim=b"s" * 64,
        )  # fmt: skip
        reply = self.exchange(device, Exchange(commits=(result,)))
        if reply is None:
            if tries:
                self.later(4.0, lambda: self._deliver(device, lease, blob, tries - 1))
            return
        if lease in reply.uploads:
            self.later(self.rng.uniform(0.1, 2.0), lambda: self._upload(device, lease, blob, tries))

    def _upload(self, device: Device, lease: str, blob: str, tries: int) -> None:
        named = self.connection.execute(
            "select 1 from vote v join lease l on l.id = v.lease where v.lease = ? and v.blob = ?"
            " and l.state in ('committed', 'uploaded')",
            (lease, blob),
        ).fetchone()
        if named is None:
            return
        self.files[blob] = self.texts[blob]
        try:
            state = self.handle(
                lambda step: verdicts.uploaded(step, device.party, lease, [blob in self.files])
            )
        except Killed:
            state = None
        lost = state is None or self.rng.random() < self.loses
        if not lost:
            device.held.discard(lease)
        if tries and (lost or (state is not None and state[0] == "missing")):
            self.later(3.0, lambda: self._upload(device, lease, blob, tries - 1))

    # Running.

    def run(
        self,
        until_s: float,
        check: Callable[[], None] | None = None,
        over: Callable[[], bool] | None = None,
    ) -> None:
        """Lets virtual time pass, event by event, until `over`. Checks what has changed."""
        end_s = self.now_s + until_s
        seen = -1
        while self.queue and self.queue[0][0] <= end_s:
            at_s, _, action = heapq.heappop(self.queue)
            self.now_s = max(self.now_s, at_s)
            # After a kill the restart has happened; whoever waited for an answer has none.
            with contextlib.suppress(Killed):
                action()
            if self.connection.total_changes != seen:
                seen = self.connection.total_changes
                if check is not None:
                    check()
                if over is not None and over():
                    return
        self.now_s = end_s

    def every(self, period_s: float, action: Callable[[], None]) -> None:
        def again() -> None:
            self.later(period_s, again)
            action()

        self.later(self.rng.uniform(0.0, period_s), again)

    def is_given_up(self, job: str) -> bool:
        """Whether an ended job has let its verified results go."""
        row = self.connection.execute(
            "select count(*) from array where job = ? and final_path = ''", (job,)
        ).fetchone()
        return bool(row[0])

    def state_of(self, job: str) -> str:
        row = self.connection.execute("select state from job where id = ?", (job,)).fetchone()
        return str(row[0])


def trusted(world: World, device: Device) -> None:
    """Lets a device have its ten passed checks."""
    world.exchange(device, Exchange(capabilities=device.capabilities))
    device.known = True
    world.connection.execute(
        "update device set passed = 10, proven = 1000000000000000000 where key = ?",
        (device.party.device,),
    )


__all__ = [
    "CAPABILITIES",
    "CATALOG",
    "Device",
    "Killed",
    "Shape",
    "World",
    "digest_of",
    "party",
    "trusted",
]
