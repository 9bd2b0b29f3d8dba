from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card.product import Problem
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from gpugoblin.catalog.rounding import MATMUL_BLOCK
from tests.helpers.card_graphs import graph_of
from tests.helpers.cuda_graphs import run_cuda
from tests.helpers.fake_cuda import FakeBlas, FakeCuda

Cuda = tuple[Machine, FakeCuda, FakeBlas]


@pytest.mark.parametrize("across", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_any_layout_becomes_one_call(
    cuda: Cuda, across: tuple[bool, bool], batch: tuple[int, ...]
) -> None:
    machine, _, blas = cuda
    random = np.random.default_rng(4)
    left = random.standard_normal((*batch, 5, 7)).astype(np.float32)
    right = random.standard_normal((*batch, 7, 4)).astype(np.float32)
    given = [
        np.ascontiguousarray(np.swapaxes(array, -1, -2)) if turned else array
        for array, turned in zip((left, right), across, strict=True)
    ]
    graph = graph_of("matmul", given, transpose_a=across[0], transpose_b=across[1])
    (result,) = run_cuda(machine, graph, given)
    np.testing.assert_allclose(result, left @ right, rtol=1e-5, atol=1e-5)
    assert blas.calls == [(4, 5, 7, 0, 68)], "float32 operands, float32 sums, no TF32"


@pytest.mark.parametrize("across", [(False, False), (True, True)])
def test_long_sums_are_cut(cuda: Cuda, across: tuple[bool, bool]) -> None:
    machine, _, blas = cuda
    random = np.random.default_rng(4)
    inner = MATMUL_BLOCK + 100
    left = random.standard_normal((520, inner)).astype(np.float32)
    right = random.standard_normal((inner, 520)).astype(np.float32)
    given = [np.ascontiguousarray(a.T) if t else a for a, t in zip((left, right), across)]  # noqa: B905
    graph = graph_of("matmul", given, transpose_a=across[0], transpose_b=across[1])
    (result,) = run_cuda(machine, graph, given)
    np.testing.assert_allclose(result, left @ right, rtol=1e-2, atol=1e-2)
    assert [call[2] for call in blas.calls] == [MATMUL_BLOCK, 100]


def test_long_sums_of_small_results_are_made_side_by_side() -> None:
    problem = Problem("float32", 1, 64, 576, 25 * MATMUL_BLOCK - 2048, (False, True))
    gemm = Gemm.of(problem)
    assert gemm.parts == 28, "the least number of at most 4,096 terms each that divides them"
    assert len(gemm.pieces()) == 1
    terms = problem.k // 28
    assert gemm.steps() == (terms, terms, 64 * 576)
    assert Gemm.of(Problem("float32", 1, 1024, 1024, 8192, (False, False))).parts == 1
    shared = Problem("float32", 3, 2, 3, 4, (False, False), shared_left=True)
    assert Gemm.of(shared).steps() == (0, 12, 6)


def test_only_rounded_operands_are_summed_in_one_piece() -> None:
    problem = Problem("float32", 1, 2, 2, 3 * MATMUL_BLOCK, (False, False))
    assert len(Gemm(problem).pieces()) == 3
    assert len(Gemm(problem, "tf32").pieces()) == 1
    assert Gemm(problem).steps() == (6 * MATMUL_BLOCK, 6 * MATMUL_BLOCK, 4)
