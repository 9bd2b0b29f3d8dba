"""A real engine: what it computes, refuses and survives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.engine import protocol
from app.engine.context import Context
from app.engine.dialogue import Rate
from app.engine.pool import Pool
from app.engine.protocol import Lost, Place, Prepare, decode
from app.engine.session import Arenas, Session
from app.host.arena import Slot
from app.host.spec import Done, EngineTask, Failed, Pong, Prepared, Refused
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.registry import catalog_hash
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.units import MIB
from tests.helpers.engines import RealEngine


@pytest.fixture(scope="module")
def engine() -> Iterator[RealEngine]:
    with RealEngine(threads=2, memory_bytes=4 * MIB) as made:
        made.engine.wait_ready()
        yield made


def product(rows: int, inner: int, columns: int, dtype: str = "float32") -> Graph:
    builder = GraphBuilder()
    left = builder.input(TensorSpec(dtype, (rows, inner)))
    right = builder.input(TensorSpec(dtype, (inner, columns)))
    return builder.build([builder.add("matmul", [left, right])])


def slots(engine: RealEngine, *sizes: int) -> list[Slot]:
    arenas = [engine.engine.inputs] * (len(sizes) - 1) + [engine.engine.outputs]
    return [arena.allocate(size) for arena, size in zip(arenas, sizes, strict=True)]


def give_back(engine: RealEngine, *held: Slot) -> None:
    for slot in held[:-1]:
        engine.engine.inputs.free(slot)
    engine.engine.outputs.free(held[-1])


def test_ready_says_who_it_is(engine: RealEngine) -> None:
    ready = engine.engine.wait_ready()
    assert ready.catalog_hash == catalog_hash()
    assert (ready.backend, ready.threads, ready.level) == ("cpu", 2, "none")
    assert len(ready.kernel_set) == 64
    assert ready.build.startswith("engine-")
    assert ready.driver.startswith("numpy-")
    assert ready.walls == {}


def test_a_product(engine: RealEngine) -> None:
    draw = np.random.default_rng(20)
    left = draw.standard_normal((300, 200)).astype(np.float32)
    right = draw.standard_normal((200, 100)).astype(np.float32)
    (result,) = engine.run(product(300, 200, 100), [left, right])
    np.testing.assert_allclose(result, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)


def test_an_exact_product_is_the_same_on_any_engine(engine: RealEngine) -> None:
    draw = np.random.default_rng(21)
    left, right = (draw.integers(-(2**31), 2**31, (64, 64)).astype(np.int32) for _ in range(2))
    graph = product(64, 64, 64, "int32")
    (result,) = engine.run(graph, [left, right], "exact")
    with RealEngine(threads=1) as other:
        (again,) = other.run(graph, [left, right], "exact")
    assert result.tobytes() == again.tobytes()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, left @ right)


def test_four_tasks_at_once_answer_in_order(engine: RealEngine) -> None:
    graph = encode(product(64, 64, 64))
    held = slots(engine, 16384, 16384, 16384)
    task = EngineTask(graph, tuple(held[:2]), (held[2],), 10.0)
    numbers = [engine.engine.submit(task) for _ in range(4)]
    answered: list[int] = []
    while len(answered) < 4:
        answered += [e.task for e in engine.engine.wait(20.0) if isinstance(e, Done)]
    assert answered == numbers
    give_back(engine, *held)


def test_a_task_over_its_memory_is_refused_before_it_starts(engine: RealEngine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (1200, 1000)))
    inner = builder.add("matmul", [x, x], transpose_b=True)
    graph = builder.build([builder.add("reduce", [inner], axes=(0, 1), function="sum")])
    with pytest.raises(EngineError) as caught:
        engine.run(graph, [np.ones((1200, 1000), np.float32)])
    assert caught.value.code == "does_not_fit"
    assert int(str(caught.value.fields["needed_bytes"])) >= 1200 * 1200 * 4
    assert caught.value.fields["memory_bytes"] == 4 * MIB
    engine.run(product(2, 2, 2), [np.ones((2, 2), np.float32)] * 2)


def test_a_wrong_index_fails_the_task_and_the_engine_lives_on(engine: RealEngine) -> None:
    builder = GraphBuilder()
    data = builder.input(TensorSpec("float32", (3, 2)))
    indices = builder.input(TensorSpec("int64", (2,)))
    graph = builder.build([builder.add("gather", [data, indices], axis=0)])
    with pytest.raises(GraphError) as caught:
        engine.run(graph, [np.zeros((3, 2), np.float32), np.array([0, 7])])
    assert caught.value.code == "index_out_of_range"
    assert caught.value.fields["index"] == 7
    (result,) = engine.run(graph, [np.eye(3, 2, dtype=np.float32), np.array([0, 1])])
    assert result.tolist() == [[1, 0], [0, 1]]


def test_nan_and_infinity_are_values(engine: RealEngine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("log"))])
    (result,) = engine.run(graph, [np.array([0, -1, np.inf, 1], np.float32)])
    np.testing.assert_array_equal(result, np.array([-np.inf, np.nan, np.inf, 0], np.float32))


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"graph": b"nonsense"}, "graph_malformed"),
        ({"graph": b"x" * 5000}, "graph_malformed"),
        ({"inputs": ()}, "inputs"),
        ({"outputs": ()}, "outputs"),
        ({"inputs": "short"}, "size"),
    ],
)
def test_tasks_that_do_not_match_are_refused(
    change: dict[str, object], detail: str, engine: RealEngine
) -> None:
    held = slots(engine, 16, 16, 16)
    task = EngineTask(encode(product(2, 2, 2)), tuple(held[:2]), (held[2],), 10.0)
    if change.get("inputs") == "short":
        short = engine.engine.inputs.allocate(12)
        task = replace(task, inputs=(short, held[1]))
    else:
        short = None
        task = replace(task, **change)  # type: ignore[arg-type]
    number = engine.engine.submit(task)
    with pytest.raises(EngineError) as caught:
        engine.until_done(number)
    assert caught.value.code == "task_refused"
    assert detail in str(caught.value)
    if short is not None:
        engine.engine.inputs.free(short)
    give_back(engine, *held)


def test_outputs_must_not_overlap(engine: RealEngine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([x, x])
    held = slots(engine, 16, 16)
    number = engine.engine.submit(EngineTask(encode(graph), (held[0],), (held[1],) * 2, 10.0))
    with pytest.raises(EngineError, match="overlap"):
        engine.until_done(number)
    give_back(engine, *held)


def test_cancel_ends_a_running_task_and_those_behind_it(engine: RealEngine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (300_000,)))
    value = x
    for _ in range(60):
        value = builder.add("formula", [value], tree=call_formula("tanh"))
        value = builder.add("formula", [value], tree=call_formula("sin"))
    graph = builder.build([value])
    held = slots(engine, 1_200_000, 1_200_000)
    task = EngineTask(encode(graph), (held[0],), (held[1],), 60.0)
    numbers = [engine.engine.submit(task) for _ in range(3)]
    for number in numbers:
        engine.engine.cancel(number)
        engine.engine.cancel(number)
    codes: dict[int, str] = {}
    while len(codes) < 3:
        for event in engine.engine.wait(30.0):
            if isinstance(event, Failed):
                codes[event.task] = event.code
            assert not isinstance(event, (Done, Refused))
    assert codes == dict.fromkeys(numbers, "cancelled")
    give_back(engine, *held)
    engine.run(product(2, 2, 2), [np.ones((2, 2), np.float32)] * 2)


def test_ping(engine: RealEngine) -> None:
    engine.engine.ping()
    engine.engine.ping()
    events = engine.engine.wait(20.0)
    assert [type(event) for event in events] == [Pong]


def test_frozen_engines_answer_once_they_are_thawed(engine: RealEngine) -> None:
    engine.engine.freeze()
    engine.engine.ping()
    assert engine.engine.wait(0.05) == ()
    engine.engine.thaw()
    assert isinstance(engine.engine.wait(20.0)[0], Pong)


def test_every_thread_is_nice(engine: RealEngine) -> None:
    import os

    pid = engine.engine._process.engine_pid
    threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    assert len(threads) >= 3
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {
        max(10, os.getpriority(os.PRIO_PROCESS, 0))
    }


class _Keeper:
    """A backend whose card is gone."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def prepare(self, refused: Sequence[str], alone: Sequence[str], compiled: bytes | None) -> bool:
        self.given.append((refused, alone, compiled))
        return compiled == b"kernels"

    def export(self) -> bytes:
        return b"kernels"

    def running(self) -> tuple[str, ...]:
        return ("0123456789abcdef",)


@pytest.fixture
def session() -> Iterator[tuple[Session, socket.socket]]:
    """One that neither reads nor runs anything by itself, and its parent's end."""
    parent, child = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = Session.__new__(Session)
    made._control_fd, made._sequence, made._send_lock = child.fileno(), 0, threading.Lock()
    made._logs = Rate(20, 20)
    made._backend = _Keeper()  # type: ignore[assignment] # what is asked of it here is all there
    made._arenas = Arenas(np.frombuffer(b"..kernels..", np.uint8), np.zeros(16, np.uint8))
    with parent, child:
        yield made, parent


def test_a_lost_card_is_said_and_ends_the_engine(
    session: tuple[Session, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, parent = session

    class Ended(Exception):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr("app.engine.session.os._exit", end)
    made._end_if_lost(EngineError("card_failed", doing="x", result="y"))
    with pytest.raises(Ended) as raised:
        made._end_if_lost(EngineError("card_lost", doing="waiting for the card"))
    assert raised.value.args == (75,)
    assert decode(parent.recv(20_000)).message == Lost(("0123456789abcdef",))


def test_kernels_go_in_and_out_within_their_places(session: tuple[Session, socket.socket]) -> None:
    made, _ = session
    keeper = made._backend
    assert isinstance(keeper, _Keeper)
    assert made._prepare(Prepare(("0" * 16,), ("1" * 16,), Place(2, 7)))
    assert not made._prepare(Prepare(compiled=Place(3, 7)))
    assert not made._prepare(Prepare(compiled=Place(8, 7)))  # it would reach beyond the arena
    assert keeper.given == [
        (("0" * 16,), ("1" * 16,), b"kernels"), ((), (), b"ernels."), ((), (), None),
    ]  # fmt: skip
    assert made._export(Place(4, 12)) == 7
    assert made._arenas.outputs.tobytes() == bytes(4) + b"kernels" + bytes(5)
    assert [made._export(place) for place in (Place(0, 6), Place(12, 7))] == [0, 0]


def test_a_driver_that_fails_at_its_own_kernels_starts_cold(
    session: tuple[Session, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = session

    def fail(self: object, *given: object) -> bool:
        raise EngineError("card_failed", doing="loading kernels", result="-13")

    monkeypatch.setattr(_Keeper, "prepare", fail)
    monkeypatch.setattr(_Keeper, "export", fail)
    assert not made._prepare(Prepare(compiled=Place(2, 7)))
    assert made._export(Place(0, 16)) == 0


class _Full:
    """A program whose card has no memory left when it runs."""

    position, private_bytes = -1, 0

    def run(self, *given: object) -> None:
        raise EngineError("card_memory", doing="allocating 64 bytes")


def test_a_card_without_memory_is_not_said_to_be_broken(
    session: tuple[Session, socket.socket],
) -> None:
    made, _ = session
    pool = Pool(1)
    context = Context(pool)
    program: Any = _Full()
    answer = made._compute(program, [], [], np.empty(0, np.uint8), context)
    pool.close()
    assert isinstance(answer, protocol.Failed)
    assert answer.code == "out_of_memory"


def test_a_tensor_larger_than_the_card_gives_at_once_does_not_fit(
    session: tuple[Session, socket.socket],
) -> None:
    made, _ = session

    class Paged:
        classes = frozenset({"float32"})

        def compile(self, graph: Graph, numeric_class: str) -> None:
            raise EngineError("does_not_fit_at_once", needed_bytes=99)

    made._backend = Paged()  # type: ignore[assignment] # what is asked of it here is all there
    made._cancelled, made._programs = set(), {}
    answer = made._answer(1, protocol.Run("float32", (), (), graph=encode(product(2, 2, 2))))
    assert answer == protocol.Refused("does_not_fit", 99, protocol.AT_ONCE)


def test_the_processor_has_no_kernels_to_keep() -> None:
    with RealEngine(threads=1) as engine:
        engine.engine.wait_ready()
        engine.engine.prepare(("0" * 16,), (), None)
        (answer,) = [e for e in engine.engine.wait(10.0) if isinstance(e, Prepared)]
    assert answer == Prepared(False)
