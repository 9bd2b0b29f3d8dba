from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.cuda.compiling import compile_card
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from gpugoblin.graph.classes import in_class
from tests.helpers.card_graphs import graph_of
from tests.helpers.fake_cuda import FakeBlas, FakeCuda

Cuda = tuple[Machine, FakeCuda, FakeBlas]
MATRICES = [np.zeros((4, 6), np.float32), np.zeros((6, 5), np.float32)]


def calls(machine: Machine, numeric_class: str) -> list[str]:
    graph = in_class(graph_of("matmul", MATRICES), numeric_class)
    program = compile_card(graph, machine, numeric_class)
    return [
        stage.call.form
        for step in program.layout.steps
        for stage, _ in step.stages
        if isinstance(stage.call, Gemm)
    ]


def test_float32_stays_float32(cuda: Cuda) -> None:
    assert calls(cuda[0], "float32") == ["float32"]


@pytest.mark.parametrize("numeric_class", ["tf32", "bfloat16", "float16"])
def test_rounded_operands_meet_their_units(cuda: Cuda, numeric_class: str) -> None:
    assert calls(cuda[0], numeric_class) == [numeric_class]


def test_whole_numbers_and_nothing_have_kernels(cuda: Cuda) -> None:
    whole = [array.astype(np.int32) for array in MATRICES]
    for inputs in (whole, [np.zeros((4, 0), np.float32), np.zeros((0, 5), np.float32)]):
        program = compile_card(graph_of("matmul", inputs), cuda[0])
        assert all(stage.call is None for step in program.layout.steps for stage, _ in step.stages)
