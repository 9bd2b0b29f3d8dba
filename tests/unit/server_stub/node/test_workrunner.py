"""Items under way: once each, tried again where that helps."""

from __future__ import annotations

import asyncio

from gpugoblin.errors import GoblinError, NodeError, StoreError
from server_stub.node.state.words import RunWork
from server_stub.node.work import Fold, Folded, Reply, Work
from server_stub.node.workrunner import WorkRunner

__all__: list[str] = []

FULL = {"path": "/x", "needed_bytes": 1, "free_bytes": 0}


class Desk:
    """A pool whose answers the test decides."""

    def __init__(self, *answers: GoblinError | Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.finished: list[RunWork] = []
        self.failed: list[tuple[str, bool]] = []

    async def run(self, work: Work) -> Reply:
        self.asked.append(work.work)
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return Folded(work.work)

    async def build(self, effect: RunWork) -> Work | None:
        return None if effect.task < 0 else Fold(f"w{effect.task}", (), ())

    async def on_finished(self, effect: RunWork, item: Work, reply: Reply) -> None:
        self.finished.append(effect)

    async def on_failed(self, effect: RunWork, error: GoblinError, again: bool) -> None:
        self.failed.append((error.code, again))

    def runner(self, limit: int = 2) -> WorkRunner:
        return WorkRunner(self, self.build, self.on_finished, self.on_failed, limit, 0.001)


async def settled(runner: WorkRunner) -> None:
    for _ in range(2000):
        if not runner.busy:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not end")


def test_the_same_instruction_twice_is_one_item() -> None:
    async def play() -> None:
        desk = Desk()
        runner = desk.runner()
        desk.gate.clear()
        for _ in range(3):
            runner.start(RunWork("fold", 1))
        await asyncio.sleep(0.01)
        assert desk.asked == ["w1"]
        desk.gate.set()
        await settled(runner)
        assert desk.finished == [RunWork("fold", 1)]

    asyncio.run(play())


def test_what_nobody_wants_any_more_is_not_run() -> None:
    async def play() -> None:
        desk = Desk()
        runner = desk.runner()
        runner.start(RunWork("fold", -1))
        await settled(runner)
        assert desk.asked == []

    asyncio.run(play())


def test_a_full_disk_is_waited_for() -> None:
    async def play() -> None:
        desk = Desk(StoreError("disk_full", **FULL), StoreError("disk_full", **FULL))
        runner = desk.runner()
        runner.start(RunWork("fold", 1))
        await settled(runner)
        assert desk.failed == [("disk_full", True)] * 2
        assert desk.finished == [RunWork("fold", 1)]

    asyncio.run(play())


def test_another_failure_is_told_once() -> None:
    async def play() -> None:
        desk = Desk(NodeError("user_unknown", name="x"))
        runner = desk.runner()
        runner.start(RunWork("fold", 1))
        await settled(runner)
        assert desk.failed == [("user_unknown", False)]
        assert desk.finished == []

    asyncio.run(play())


def test_a_surprise_is_told_as_well() -> None:
    async def play() -> None:
        desk = Desk(ValueError("what"))
        runner = desk.runner()
        runner.start(RunWork("fold", 1))
        await settled(runner)
        assert desk.failed == [("internal", False)]

    asyncio.run(play())


def test_preparing_leaves_room_for_checks() -> None:
    async def play() -> None:
        desk = Desk()
        desk.gate.clear()
        runner = desk.runner(limit=2)
        for number in range(6):
            runner.start(RunWork("prepare", number))
        runner.start(RunWork("check", 9))
        await asyncio.sleep(0.01)
        assert sorted(desk.asked) == ["w0", "w1", "w9"]
        desk.gate.set()
        await settled(runner)
        assert len(desk.finished) == 7

    asyncio.run(play())


def test_the_validators_queue_has_an_age_and_stop_ends_all() -> None:
    async def play() -> None:
        desk = Desk()
        desk.gate.clear()
        runner = desk.runner()
        assert runner.validator_wait_s() == 0.0
        runner.start(RunWork("fold", 1))
        assert runner.validator_wait_s() == 0.0
        runner.start(RunWork("recompute", 2))
        await asyncio.sleep(0.01)
        assert runner.validator_wait_s() > 0.0
        await runner.stop()
        assert runner.busy == 0

    asyncio.run(play())


def test_it_can_be_waited_until_no_worker_writes_a_result_of_a_task() -> None:
    async def play() -> None:
        desk = Desk()
        runner = desk.runner()
        desk.gate.clear()
        for effect in (RunWork("check", 1, "a"), RunWork("fold", 1), RunWork("prepare", 1)):
            runner.start(effect)
        runner.start(RunWork("recompute", 2))
        await runner.drained([3])
        waiting = asyncio.ensure_future(runner.drained([1, 3]))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        desk.gate.set()
        await asyncio.wait_for(waiting, 20.0)
        await settled(runner)

    asyncio.run(play())
