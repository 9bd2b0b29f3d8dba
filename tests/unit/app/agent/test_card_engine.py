"""One card's engine: fed, emptied, ended; every misfortune is an event."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from app.agent.card_engine import CardEngine, Computed
from app.agent.checkup import Checkup
from app.agent.events import (
    EngineDied,
    EngineDone,
    EngineReady,
    EngineRefused,
    EngineStopped,
    Event,
    SubmitDeferred,
    TaskRefused,
)
from app.agent.lane import Lane
from app.agent.settings import Settings, read_settings
from gpugoblin.blobs.chunk import blob_hash
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import AgentError, EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.serialize import encode
from gpugoblin.ids import BlobHash, LeaseId
from gpugoblin.wire.messages.lease import Lease
from gpugoblin.wire.messages.task import OutputSpec, Task, TaskInput
from tests.helpers.messages import example
from tests.helpers.stub_engine import StubEngine, StubMaker

L1, L2 = LeaseId("lease_a"), LeaseId("lease_b")
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)
BLOBS = {blob_hash(array.tobytes()): array.tobytes() for array in (A, B)}


def product() -> Task:
    builder = GraphBuilder()
    inputs = [builder.input(TensorSpec("float32", array.shape)) for array in (A, B)]
    graph = builder.build([builder.add("matmul", inputs)])
    return msgspec.structs.replace(
        example(Lease, bare=True).task,
        graph=encode(graph),
        inputs=tuple(
            TaskInput(slot, BlobHash(blob_hash(array.tobytes())), array.nbytes)
            for slot, array in enumerate((A, B))
        ),
        outputs=(OutputSpec(0, "float32", (3, 5)),),
        numeric_class="float32",
    )


def read(blob: BlobHash, target: memoryview) -> None:
    target[:] = BLOBS[blob]


class Bench:
    """A CardEngine with a stub, and what it said."""

    def __init__(self, *behavior: str, every: int = 200, is_partial: bool = False) -> None:
        self.maker = StubMaker(*behavior)
        self.lies: list[str] = []
        self.lost_s: list[float] = []
        self.events: list[Event] = []
        self.kept: dict[LeaseId, Computed] = {}
        self.lane = Lane("launcher")
        self.pool = ThreadPoolExecutor(2)
        self.settings = read_settings(None)
        self.engine = CardEngine(
            0,
            lambda: self.maker(self.settings, None),  # type: ignore[arg-type]
            self.lane,
            self.pool,
            self.events.append,
            self.kept.__setitem__,
            is_partial=is_partial,
            checkup=Checkup(every),
            failed=lambda error: self.lies.append(error.code),
            lost=self.lost_s.append,
        )

    async def until(self, kind: type[Event]) -> Any:
        for _ in range(500):
            found = [each for each in self.events if isinstance(each, kind)]
            if found:
                return found[-1]
            await asyncio.sleep(0.01)
        raise TimeoutError(f"no {kind.__name__} among {self.events}")

    def run(self, script: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            try:
                await script()
            finally:
                await self.engine.close()

        try:
            asyncio.run(whole())
        finally:
            self.lane.end()
            self.lane.join(5)
            self.pool.shutdown()
            for made in self.maker.made:
                made.close()


def test_a_task_is_computed_hashed_and_kept() -> None:
    bench = Bench()

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        assert bench.engine.rates is not None
        bench.engine.submit(L1, product(), read)
        assert (await bench.until(EngineDone)).lease == L1

    bench.run(script)
    output = bench.kept[L1].outputs[0]
    assert bytes(output.data) == (A @ B).tobytes()
    assert output.blob == blob_hash((A @ B).tobytes())


def test_arenas_are_free_again_and_inputs_stay_for_the_next() -> None:
    bench = Bench()
    reads: list[BlobHash] = []

    def counted(blob: BlobHash, target: memoryview) -> None:
        reads.append(blob)
        read(blob, target)

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        for lease in (L1, L2):
            bench.engine.submit(lease, product(), counted)
            while lease not in bench.kept:
                await asyncio.sleep(0.01)

    bench.run(script)
    assert len(reads) == 2
    assert bench.maker.made[0].outputs.used_bytes == 0


@pytest.mark.parametrize(
    ("behavior", "is_partial", "is_nonsense", "is_unfit"),
    [
        ("refuse:does_not_fit", False, False, True),
        ("refuse:class_unsupported", False, True, False),
        ("refuse:class_unsupported", True, False, True),
        ("refuse:graph_malformed", True, True, False),
        ("fail:kernel_failed", True, False, False),
    ],
)
def test_refusals(behavior: str, is_partial: bool, is_nonsense: bool, is_unfit: bool) -> None:
    bench = Bench(behavior, is_partial=is_partial)
    code = behavior.partition(":")[2]

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        told = await bench.until(TaskRefused)
        assert (told.lease, told.code) == (L1, code)
        assert (told.is_nonsense, told.is_unfit) == (is_nonsense, is_unfit)

    bench.run(script)
    assert bench.maker.made[0].outputs.used_bytes == 0


def test_a_task_that_has_no_room_is_deferred() -> None:
    bench = Bench()
    task = msgspec.structs.replace(product(), outputs=(OutputSpec(0, "float32", (2**30,)),))

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, task, read)
        assert (await bench.until(SubmitDeferred)).lease == L1

    bench.run(script)


def test_a_blob_that_cannot_be_read_is_a_refusal() -> None:
    bench = Bench()

    def damaged(blob: BlobHash, target: memoryview) -> None:
        raise AgentError("cache_damaged", blob=blob)

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), damaged)
        assert (await bench.until(TaskRefused)).code == "cache_damaged"

    bench.run(script)


def test_a_cancelled_task_says_nothing() -> None:
    bench = Bench("hang", "")

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        while not bench.engine._running:
            await asyncio.sleep(0.01)
        bench.engine.cancel(L1)
        bench.engine.submit(L2, product(), read)
        assert (await bench.until(EngineDone)).lease == L2

    bench.run(script)
    assert L1 not in bench.kept
    assert not [each for each in bench.events if getattr(each, "lease", L2) == L1]


def test_an_engine_that_dies_is_told_after_what_was_done() -> None:
    bench = Bench("", "die")

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        bench.engine.submit(L2, product(), read)
        assert (await bench.until(EngineDied)).code == "engine_died"

    bench.run(script)
    kinds = [type(each) for each in bench.events]
    assert kinds == [EngineReady, EngineDone, EngineDied]


def test_a_start_that_fails_names_its_cause() -> None:
    bench = Bench("start:no walls")

    async def script() -> None:
        bench.engine.begin()
        assert (await bench.until(EngineRefused)).code == "engine_start_failed"
        assert bench.engine.refusal is not None
        bench.engine.begin()
        await bench.until(EngineReady)
        assert bench.engine.refusal is None

    bench.run(script)


def test_an_end_while_starting_is_a_death_and_no_refusal() -> None:
    """A refusal keeps the card from lending for minutes; a death is tried again in seconds."""
    bench = Bench("die while starting")

    async def script() -> None:
        bench.engine.begin()
        assert (await bench.until(EngineDied)).code == "engine_died"
        assert bench.engine.refusal is None
        bench.engine.begin()
        await bench.until(EngineReady)

    bench.run(script)


def test_stop_ends_it_and_says_so() -> None:
    bench = Bench()

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.stop()
        await bench.until(EngineStopped)
        bench.events.clear()
        bench.engine.stop()
        await bench.until(EngineStopped)

    bench.run(script)
    assert not [each for each in bench.events if isinstance(each, EngineDied)]


def test_stop_while_it_starts() -> None:
    bench = Bench()

    async def script() -> None:
        bench.engine.begin()
        bench.engine.stop()
        await bench.until(EngineStopped)

    bench.run(script)
    assert not [each for each in bench.events if isinstance(each, EngineReady)]


def test_freeze_and_thaw_reach_the_engine() -> None:
    bench = Bench()

    async def script() -> None:
        bench.engine.freeze()
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.freeze()
        bench.engine.thaw()

    bench.run(script)
    assert bench.maker.made[0].frozen == [True, False]


class SlowMaker:
    """Makes a stub that is not ready before `go` is set; says when its start has begun."""

    def __init__(self) -> None:
        self.has_begun, self.go = threading.Event(), threading.Event()
        self.made: list[StubEngine] = []

    def __call__(self, settings: Settings, _: Path) -> Any:
        maker = self

        class Slow(StubEngine):
            closed = False

            def wait(self, timeout_s: float) -> tuple[Event, ...]:  # type: ignore[override]
                maker.has_begun.set()
                return super().wait(timeout_s) if maker.go.wait(0.005) else ()  # type: ignore[return-value]

            def close(self) -> None:
                self.closed = True
                super().close()

        engine = Slow(settings, deque())
        self.made.append(engine)
        return engine


def test_an_engine_that_starts_is_ours_already() -> None:
    """It computes what it is asked for seconds, and a probe looks meanwhile."""
    bench, maker = Bench(), SlowMaker()
    bench.maker = maker  # type: ignore[assignment]

    async def script() -> None:
        bench.engine.begin()
        assert await asyncio.to_thread(maker.has_begun.wait, 5)
        maker.made[0].pids = (77,)
        assert bench.engine.pids() == (77,)
        maker.go.set()
        await bench.until(EngineReady)
        assert bench.engine.pids() == (77,)
        bench.engine.stop()
        await bench.until(EngineStopped)
        assert bench.engine.pids() == ()

    bench.run(script)


@pytest.mark.parametrize("how", ["close", "stop", "cancel"])
def test_an_end_while_the_engine_starts_leaves_nothing(how: str) -> None:
    bench, maker = Bench(), SlowMaker()
    bench.maker = maker  # type: ignore[assignment]

    async def script() -> None:
        bench.engine.begin()
        assert await asyncio.to_thread(maker.has_begun.wait, 5)
        if how == "stop":
            bench.engine.stop()
            await bench.until(EngineStopped)
        elif how == "cancel":
            starting = bench.engine._starting
            assert starting is not None
            starting.cancel()
            await asyncio.wait([starting])
            await asyncio.to_thread(lambda: bench.lane.call(lambda: None).result(5))
        else:
            await bench.engine.close()
        assert [engine.closed for engine in maker.made] == [True]  # type: ignore[attr-defined]

    bench.run(script)
    assert not any(isinstance(event, EngineReady) for event in bench.events)


def test_an_engine_that_has_died_is_buried_before_the_end() -> None:
    bench = Bench("die")
    closed: list[bool] = []

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        made = bench.maker.made[0]
        close = made.close
        made.close = lambda: (closed.append(True), close())[0]  # type: ignore[method-assign]
        bench.engine.submit(L1, product(), read)
        while not bench.engine._burials:
            await asyncio.sleep(0)
        await bench.engine.close()
        assert closed == [True]

    bench.run(script)


def test_a_running_engine_is_asked_between_tasks() -> None:
    bench = Bench(every=1)

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        for lease in (L1, L2):
            bench.engine.submit(lease, product(), read)
            while lease not in bench.kept:
                await asyncio.sleep(0.01)

    bench.run(script)
    assert bench.maker.made[0].proofs == 1
    assert bench.maker.made[0].outputs.used_bytes == 0
    assert bench.maker.made[0].inputs.used_bytes == 2 * 4096  # kept for the next


def test_an_engine_that_lies_and_dies_at_once_is_buried_too() -> None:
    """Its answer and its end come together."""
    bench = Bench(every=1)

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        while L1 not in bench.kept:
            await asyncio.sleep(0.01)
        made = bench.maker.made[0]
        made.is_lying, submit = True, made.submit

        def last(task: Any) -> int:
            number = submit(task)
            made.end(EngineError("engine_died", status=1, doing="dying", stderr="none"))
            return number

        made.submit = last  # type: ignore[method-assign]
        bench.engine.submit(L2, product(), read)
        assert (await bench.until(EngineRefused)).code == "card_lied"
        assert bench.engine.pids() == ()

    bench.run(script)
    assert not [each for each in bench.events if isinstance(each, (EngineDied, EngineStopped))]


def test_a_wrong_answer_ends_the_engine_and_the_card_rests() -> None:
    bench = Bench(every=1)

    async def script() -> None:
        bench.engine.begin()
        await bench.until(EngineReady)
        bench.engine.submit(L1, product(), read)
        while L1 not in bench.kept:
            await asyncio.sleep(0.01)
        bench.maker.made[0].is_lying = True
        bench.engine.submit(L2, product(), read)
        told = await bench.until(EngineRefused)
        assert (told.code, told.retry_s) == ("card_lied", 3600.0)
        assert bench.engine.refusal is not None
        assert bench.lies == ["card_lied"]

    bench.run(script)
    assert not [each for each in bench.events if isinstance(each, (EngineDied, EngineStopped))]
