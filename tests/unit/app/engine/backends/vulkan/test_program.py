from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.vulkan.compiling import compile_card
from app.engine.backends.vulkan.machine import Machine, kernel_name
from app.engine.context import Cancelled, Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from tests.helpers.card_graphs import graph_of, run_graph

NOTHING = np.empty(0, np.uint8)


def deep(steps: int) -> Graph:
    """A reversed running sum again and again: nothing is fused, and steps wait for each other."""
    builder = GraphBuilder()
    value = builder.input(TensorSpec("int32", (70,)))
    for _ in range(steps):
        value = builder.add("flip", [value], axes=(0,))
        shifted = builder.add("slice", [value], start=(0,), stop=(70,), step=(1,))
        value = builder.add("formula", [value, shifted], tree=call_formula("add"))
    return builder.build([value])


def test_replays_are_timed(machine: Machine) -> None:
    program = compile_card(deep(2), machine)
    assert program.replay_s(2) > 0
    assert 0 < program.queue_s(2) < 1
    program.release()


def test_replay_on_other_tensors(machine: Machine) -> None:
    program = compile_card(deep(3), machine)
    pool = Pool(1)
    for start in (0, 100):
        data = np.arange(start, start + 70, dtype=np.int32)
        out = np.empty(70, np.int32)
        program.run([data], [out], NOTHING, Context(pool))
        np.testing.assert_array_equal(out, data[::-1] * 8)
    program.release()
    pool.close()


def test_programs_that_share_the_block_keep_their_constants(machine: Machine) -> None:
    """Two graphs of one size take turns; each has its constant where the other's lies."""
    pool = Pool(1)
    data = np.arange(70, dtype=np.float32)
    programs = []
    for scale in (2.0, 3.0):
        builder = GraphBuilder()
        value = builder.input(TensorSpec("float32", (70,)))
        factor = builder.constant(np.full(70, scale, np.float32))
        product = builder.add("formula", [value, factor], tree=call_formula("mul"))
        programs.append((scale, compile_card(builder.build([product]), machine)))
    machine.hold(max(program.private_bytes for _, program in programs))
    for scale, program in programs * 2:
        out = np.empty(70, np.float32)
        program.run([data], [out], NOTHING, Context(pool))
        np.testing.assert_array_equal(out, data * np.float32(scale))
    for _, program in programs:
        program.release()
    pool.close()


def test_i1710_segments_are_cut_again_without_compiling(machine: Machine) -> None:
    graph = deep(4)
    data = np.arange(70, dtype=np.int32)
    before = machine.weight_per_s
    try:
        machine.weight_per_s = 1e-3
        program = compile_card(graph, machine)
        pool = Pool(1)
        out = np.empty(70, np.int32)
        program.run([data], [out], NOTHING, Context(pool))
        np.testing.assert_array_equal(out, data * 16)
        assert len(program._segments) == len(program.layout.steps)
        machine.weight_per_s = 1e12
        program.run([data], [out], NOTHING, Context(pool))
        assert len(program._segments) == 1
        np.testing.assert_array_equal(out, data * 16)
        program.release()
        pool.close()
    finally:
        machine.weight_per_s = before


def test_cancelled_before_it_begins(machine: Machine) -> None:
    program = compile_card(deep(1), machine)
    pool = Pool(1)
    out = np.empty(70, np.int32)
    with pytest.raises(Cancelled):
        program.run([out], [out], NOTHING, Context(pool, wanted=lambda: False))
    program.release()
    pool.close()


def test_progress_reaches_one(machine: Machine) -> None:
    program = compile_card(deep(2), machine)
    pool, seen = Pool(1), list[float]()
    data = np.zeros(70, np.int32)
    program.run([data], [data.copy()], NOTHING, Context(pool, report=seen.append))
    assert seen[-1] == pytest.approx(1.0)
    program.release()
    pool.close()


def test_wrong_index_names_its_node(machine: Machine) -> None:
    inputs = [np.zeros((3, 2), np.float32), np.array([0, 7], np.int64)]
    with pytest.raises(KernelError) as raised:
        run_graph(machine, graph_of("gather", inputs, axis=0), inputs)
    assert raised.value.values == (7, 0, 3)


def test_memory_that_is_not_there(machine: Machine) -> None:
    builder = GraphBuilder()
    many = [builder.add("iota", [], count=2**27 + number) for number in range(128)]
    program = compile_card(builder.build(many), machine)  # 128 GiB
    with pytest.raises(MemoryError):
        program.prepare()


def names_of(machine: Machine, graph: Graph) -> list[str]:
    program = compile_card(graph, machine)
    found = [kernel_name(stage.words) for step in program.layout.steps for stage, _ in step.stages]
    program.release()
    return found


def test_a_suspect_runs_by_itself(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = deep(2)
    names = names_of(machine, graph)
    suspect = names[1]
    monkeypatch.setattr(machine, "alone", frozenset({suspect}))
    flown: list[tuple[str, ...]] = []
    wait = machine.queue.wait

    def watched(number: int) -> bool:
        assert len(machine.in_flight) <= 1
        flown.extend(machine.in_flight.values())
        return wait(number)

    monkeypatch.setattr(machine.queue, "wait", watched)
    data = np.arange(70, dtype=np.int32)
    np.testing.assert_array_equal(run_graph(machine, graph, [data])[0], data * 4)
    assert (suspect,) in flown
    assert all(suspect not in each for each in flown if len(each) > 1)
    assert machine.in_flight == {}


def test_a_lost_card_says_what_ran(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "weight_per_s", 1e11)  # all in one segment
    graph = deep(2)
    names = names_of(machine, graph)
    program = compile_card(graph, machine)
    pool = Pool(1)
    data, out = np.arange(70, dtype=np.int32), np.empty(70, np.int32)
    program.run([data], [out], NOTHING, Context(pool))
    wait = machine.queue.wait

    def lose(number: int) -> bool:
        done = wait(number)
        if machine.in_flight:
            raise EngineError("card_lost", doing="waiting for the card")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(machine.queue, "wait", lose)
        with pytest.raises(EngineError):
            program.run([data], [out], NOTHING, Context(pool))
    found = {name for each in machine.in_flight.values() for name in each}
    assert found == set(names)
    machine.device.wait_idle()
    program.run([data], [out], NOTHING, Context(pool))
    assert machine.in_flight == {}
    program.release()
    pool.close()
