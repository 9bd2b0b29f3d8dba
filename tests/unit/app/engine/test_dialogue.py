"""Which message may come when."""

from __future__ import annotations

import pytest

from app.engine.dialogue import BURST, FromEngine, FromParent, Rate
from app.engine.protocol import (
    Cancel,
    Done,
    Export,
    Exported,
    Failed,
    Frame,
    Log,
    Lost,
    Message,
    Ping,
    Place,
    Pong,
    Prepare,
    Prepared,
    Progress,
    Ready,
    Refused,
    Run,
)
from gpugoblin.errors import EngineError

READY = Ready("b", "d", "cpu", "0" * 64, "0" * 64, 1, {})
DONE = Done(0.1, 0)
RUN = Run("float32", (), ())


class Script:
    """Plays messages to a state machine with the right sequence numbers."""

    def __init__(self) -> None:
        self.talk = FromEngine()
        self.sequence = 0

    def hear(self, message: Message, task: int = 0, now_s: float = 0.0) -> None:
        frame = Frame(self.sequence, task, message)
        self.sequence += 1
        self.talk.receive(frame, now_s)

    def lie(self, message: Message, task: int = 0, now_s: float = 0.0) -> str:
        with pytest.raises(EngineError) as caught:
            self.hear(message, task, now_s)
        assert caught.value.code == "engine_lied"
        return caught.value.what


def test_an_honest_dialogue() -> None:
    script = Script()
    script.hear(Log("hello"))
    script.hear(READY)
    for task in (1, 2, 3):
        script.talk.submitted(task)
    script.talk.pinged(9)
    script.hear(Progress(0.5), 1)
    script.hear(Pong(9))
    script.hear(DONE, 1)
    script.hear(Refused("does_not_fit"), 2)
    script.hear(Failed("cancelled"), 3)
    assert script.talk.outstanding == []
    assert not script.talk.ping_pending


@pytest.mark.parametrize("message", [DONE, Progress(0.1), Pong(1), Refused("slot_mismatch")])
def test_nothing_before_ready(message: Message) -> None:
    script = Script()
    script.talk.submitted(1)
    assert "before Ready" in script.lie(message, 1)


@pytest.mark.parametrize("message", [RUN, Cancel(), Ping(1)])
def test_the_parents_words_are_not_the_engines(message: Message) -> None:
    assert "only from the parent" in Script().lie(message)


def test_ready_comes_once_and_alone() -> None:
    script = Script()
    script.hear(READY)
    script.lie(READY)
    Script().lie(READY, task=1)


def test_answers_keep_the_order() -> None:
    script = Script()
    script.hear(READY)
    script.talk.submitted(1)
    script.talk.submitted(2)
    assert "before the one in front" in script.lie(DONE, 2)
    script = Script()
    script.hear(READY)
    script.talk.submitted(1)
    script.talk.submitted(2)
    assert "not the first" in script.lie(Progress(0.1), 2)


def test_a_pong_needs_its_ping() -> None:
    script = Script()
    script.hear(READY)
    script.talk.pinged(1)
    script.lie(Pong(2))


def test_sequence_numbers_have_no_gap() -> None:
    talk = FromEngine()
    with pytest.raises(EngineError, match="sequence 1 where 0"):
        talk.receive(Frame(1, 0, READY), 0.0)


def test_log_lines_are_rated() -> None:
    script = Script()
    for _ in range(BURST):
        script.hear(Log("x"), now_s=5.0)
    script.hear(Log("x"), now_s=5.06)
    script.lie(Log("x"), now_s=5.06)


def test_a_rate_in_the_long_run() -> None:
    rate = Rate(per_s=10, burst=3)
    taken = sum(rate.take(step * 0.01) for step in range(1000))
    assert 100 <= taken <= 103
    assert not Rate(1, 0.5).take(0.0)
    backwards = Rate(1, 1)
    assert backwards.take(10.0)
    assert not backwards.take(9.0)


def test_what_an_engine_hears() -> None:
    talk = FromParent()
    for sequence, task in enumerate((1, 2, 5, 6)):
        talk.receive(Frame(sequence, task, RUN))
    assert talk.queued(5)
    with pytest.raises(EngineError, match="more than 4"):
        talk.receive(Frame(4, 7, RUN))
    talk.answered(1)
    talk.receive(Frame(5, 8, RUN))
    talk.receive(Frame(6, 99, Cancel()))
    talk.receive(Frame(7, 0, Ping(1)))
    assert not talk.queued(1)


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (Frame(1, 1, RUN), "sequence"),
        (Frame(0, 0, RUN), "task 0 after"),
        (Frame(0, 1, DONE), "only from the engine"),
    ],
)
def test_what_an_engine_does_not_hear(frame: Frame, match: str) -> None:
    with pytest.raises(EngineError, match=match):
        FromParent().receive(frame)


def test_answers_about_kernels_come_only_when_they_were_asked_for() -> None:
    for answer in (Prepared(True), Exported(5)):
        script = Script()
        script.hear(READY)
        assert "without its question" in script.lie(answer)
        script = Script()
        script.hear(READY)
        script.talk.asked(type(answer))  # type: ignore[arg-type]
        other = Exported(1) if isinstance(answer, Prepared) else Prepared(False)
        assert "without its question" in script.lie(other)
        script = Script()
        script.hear(READY)
        script.talk.asked(type(answer))  # type: ignore[arg-type]
        script.hear(answer)
        assert "without its question" in script.lie(answer)


def test_no_card_is_lost_while_no_task_runs() -> None:
    """It is remembered for later engines, so it is heard of those alone that have a reason."""
    script = Script()
    script.hear(READY)
    assert "while no task runs" in script.lie(Lost(("0" * 16,)))


def test_nothing_comes_after_a_lost_card() -> None:
    script = Script()
    script.hear(READY)
    script.talk.submitted(1)
    script.hear(Lost())
    assert "after the card was lost" in script.lie(DONE, task=1)


def test_what_a_parent_may_say_about_kernels() -> None:
    talk = FromParent()
    talk.receive(Frame(0, 0, Prepare()))
    talk.receive(Frame(1, 0, Export(Place(0, 8))))
    talk.receive(Frame(2, 1, RUN))
    for sequence, wrong in ((3, Prepare()), (4, Export(Place(0, 8))), (5, Lost())):
        with pytest.raises(EngineError) as caught:
            talk.receive(Frame(sequence, 0, wrong))
        assert caught.value.code == "engine_lied"
