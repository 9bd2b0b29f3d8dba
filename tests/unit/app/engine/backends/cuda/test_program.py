from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cuda.compiling import compile_card
from app.engine.backends.cuda.machine import Machine
from app.engine.context import Cancelled, Context, KernelError
from app.engine.pool import Pool
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from tests.helpers.card_graphs import graph_of
from tests.helpers.cuda_graphs import run_cuda
from tests.helpers.fake_cuda import FakeBlas, FakeCuda

Cuda = tuple[Machine, FakeCuda, FakeBlas]
NOTHING = np.empty(0, np.uint8)


def products(count: int) -> Graph:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (4, 4)))
    factor = builder.constant(np.eye(4, dtype=np.float32) * np.float32(2))
    for _ in range(count):
        value = builder.add("matmul", [value, factor])
    return builder.build([value])


def test_replay_on_other_tensors(cuda: Cuda) -> None:
    machine, _, _ = cuda
    program = compile_card(products(3), machine)
    pool = Pool(1)
    for start in (0, 100):
        data = np.arange(start, start + 16, dtype=np.float32).reshape(4, 4)
        out = np.empty((4, 4), np.float32)
        program.run([data], [out], NOTHING, Context(pool))
        np.testing.assert_array_equal(out, data * 8)
    program.release()
    pool.close()


def test_programs_that_share_the_block_keep_their_constants(cuda: Cuda) -> None:
    machine, _, _ = cuda
    pool = Pool(1)
    data = np.ones((4, 4), np.float32)
    programs = [compile_card(products(count), machine) for count in (1, 2)]
    machine.hold(max(program.private_bytes for program in programs))
    for scale, program in [(2, programs[0]), (4, programs[1])] * 2:
        out = np.empty((4, 4), np.float32)
        program.run([data], [out], NOTHING, Context(pool))
        np.testing.assert_array_equal(out, data * np.float32(scale))
    for program in programs:
        program.release()
    pool.close()


def test_segments_are_cut_again_without_compiling(cuda: Cuda) -> None:
    machine, card, _ = cuda
    data = np.ones((4, 4), np.float32)
    program = compile_card(products(4), machine)
    pool = Pool(1)
    out = np.empty((4, 4), np.float32)
    for rate, segments in ((1e-3, 4), (1e12, 1)):
        machine.weight_per_s = rate
        program.run([data], [out], NOTHING, Context(pool))
        assert len(program._segments) == segments
        np.testing.assert_array_equal(out, data * 16)
    assert card.modules == 0, "cuBLAS has kernels of its own"
    program.release()
    pool.close()


def test_cancelled_before_it_begins(cuda: Cuda) -> None:
    machine, _, blas = cuda
    program = compile_card(products(1), machine)
    pool = Pool(1)
    data = np.ones((4, 4), np.float32)
    with pytest.raises(Cancelled):
        program.run([data], [data.copy()], NOTHING, Context(pool, wanted=lambda: False))
    assert blas.calls == []
    program.release()
    pool.close()


def test_progress_reaches_one(cuda: Cuda) -> None:
    machine, _, _ = cuda
    program = compile_card(products(2), machine)
    pool, seen = Pool(1), list[float]()
    data = np.ones((4, 4), np.float32)
    program.run([data], [data.copy()], NOTHING, Context(pool, report=seen.append))
    assert seen[-1] == pytest.approx(1.0)
    assert program.replay_s(2) > 0
    assert program.queue_s(2) > 0
    program.release()
    pool.close()


def test_wrong_index_names_its_node(cuda: Cuda) -> None:
    """Kernels do not run here, so the error is put where one would put it."""
    machine, _, _ = cuda
    inputs = [np.zeros((3, 2), np.float32), np.array([0, 7], np.int64)]
    program = compile_card(graph_of("gather", inputs, axis=0), machine)
    block = machine.hold(program.private_bytes)
    place, count = program.layout.errors
    assert count == 1
    program._record(block)
    machine.upload(block, [(place, np.array([7, 1], np.int64))])
    with pytest.raises(KernelError) as raised:
        program._require_no_error(block)
    assert raised.value.values == (7, 0, 3)
    assert program.position == 0
    program.release()


def test_many_addresses_come_in_a_table_that_is_counted(cuda: Cuda) -> None:
    machine, card, _ = cuda
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (2, 1))) for _ in range(31)]
    total = values[0]
    for value in values[1:]:
        total = builder.add("formula", [total, value], tree=call_formula("add"))
    graph = builder.build([total])
    before = card.free_bytes
    run_cuda(machine, graph, [np.zeros((2, 1), np.float32)] * 31)
    assert all(len(addresses) == 1 for _, _, addresses in card.launches)
    program = compile_card(graph, machine)
    assert program.private_bytes == program.layout.size_bytes + 8 * 32
    assert before - card.free_bytes == program.layout.size_bytes, "the table is given back"


def test_memory_that_is_not_there(cuda: Cuda) -> None:
    program = compile_card(graph_of("iota", [], count=2**31 - 1), cuda[0])
    with pytest.raises(MemoryError):
        program.prepare()


def test_failed_recording_leaves_nothing(cuda: Cuda) -> None:
    machine, card, _ = cuda
    card.failing["cuLaunchKernel"] = 1
    data = np.zeros(8, np.int32)
    with pytest.raises(EngineError):
        run_cuda(machine, graph_of("flip", [data], axes=(0,)), [data])
    assert card.capture is None
