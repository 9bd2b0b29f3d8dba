from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.engine.backends.card.fragments import Fragment, Units
from app.engine.backends.card.layout import require_served
from app.engine.backends.vulkan.compiling import compile_card, keeps_small_numbers
from app.engine.backends.vulkan.machine import Machine, kernel_name
from app.engine.backends.vulkan.program import CardProgram
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import EngineError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class
from tests.helpers.card_graphs import graph_of, require_right, run_graph, short_product


def test_composite_runs_as_its_decomposition(machine: Machine) -> None:
    rows = np.random.default_rng(1).standard_normal((3, 300)).astype(np.float32)
    require_right(machine, graph_of("softmax", [rows], axis=1), [rows])


def test_chain_is_one_dispatch(machine: Machine) -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (5, 7)))
    y = builder.input(TensorSpec("float32", (7,)))
    total = builder.add("formula", [x, y], tree=call_formula("add"))
    root = builder.add("formula", [total], tree=call_formula("abs"))
    graph = builder.build([builder.add("formula", [root, total], tree=call_formula("mul"))])
    program = compile_card(graph, machine)
    assert [len(step.stages) for step in program.layout.steps] == [1]
    arrays = [np.arange(35, dtype=np.float32).reshape(5, 7), np.full(7, -9, np.float32)]
    require_right(machine, graph, arrays)


def test_memory_is_counted_whole(machine: Machine) -> None:
    graph = graph_of("iota", [], count=1000, dtype="int32")
    program = compile_card(graph, machine)
    assert 4000 <= program.private_bytes <= 4000 + 2 * 256 + 16


def test_more_tensors_than_fit_the_push_constants(machine: Machine) -> None:
    arrays = [np.full((2, 1), place, np.float32) for place in range(31)]
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (2, 1))) for _ in arrays]
    total = values[0]
    for value in values[1:]:
        total = builder.add("formula", [total, value], tree=call_formula("add"))
    (result,) = run_graph(machine, builder.build([total]), arrays)
    assert result.tolist() == [[465.0], [465.0]]


def test_what_is_not_served_is_refused() -> None:
    matrix = np.eye(3, dtype=np.float32)
    with pytest.raises(EngineError) as raised:
        require_served(graph_of("cholesky", [matrix]))
    assert raised.value.code == "task_refused"


def test_a_card_that_loses_small_numbers_refuses_exact_floats(machine: Machine) -> None:
    graph = graph_of("permute", [np.eye(3, dtype=np.float32)], axes=(1, 0))
    whole = graph_of("permute", [np.eye(3, dtype=np.int32)], axes=(1, 0))
    known = keeps_small_numbers(machine)
    assert machine.keeps_small is known
    try:
        machine.keeps_small = False
        compile_card(whole, machine, "exact").release()
        with pytest.raises(EngineError, match="integers"):
            compile_card(graph, machine, "exact")
    finally:
        machine.keeps_small = known


def test_a_kernel_that_lost_the_card_is_not_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product is computed by another kernel; what has only one is refused."""
    moved = graph_of("flip", [np.arange(6, dtype=np.int32)], axes=(0,))
    square = (np.arange(256 * 256, dtype=np.float32) % 251).reshape(256, 256)
    product = graph_of("matmul", [square, square])
    for graph in (moved, product):
        program = compile_card(graph, machine)
        words = {stage.words for step in program.layout.steps for stage, _ in step.stages}
        program.release()
        monkeypatch.setattr(machine, "refused", frozenset(map(kernel_name, words)))
        if graph is product:
            require_right(machine, product, [square, square])
            continue
        with pytest.raises(EngineError) as raised:
            compile_card(graph, machine)
        assert raised.value.code == "task_refused"
        assert "lost this card" in str(raised.value)


@pytest.fixture
def small_pages(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> int:
    """As on a card that gives memory in small pieces only."""
    monkeypatch.setattr(machine, "page_bytes", 8192)
    return 8192


def test_a_task_over_several_allocations(machine: Machine, small_pages: int) -> None:
    """Inputs, a constant, intermediates, error slots, outputs and a copy, in many pages."""
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((40, 45)).astype(np.float32) for _ in range(2)]
    indices = rng.integers(0, 40, 11).astype(np.int32)
    builder = GraphBuilder()
    a, b = (builder.input(TensorSpec("float32", (40, 45))) for _ in range(2))
    rows = builder.input(TensorSpec("int32", (11,)))
    weight = builder.constant(rng.standard_normal((45, 44)).astype(np.float32))
    total = builder.add("formula", [a, b], tree=call_formula("add"))
    product = builder.add("matmul", [total, weight])
    turned = builder.add("permute", [product], axes=(1, 0))
    back = builder.add("permute", [turned], axes=(1, 0))
    chosen = builder.add("gather", [builder.add("softmax", [back], axis=1), rows], axis=0)
    graph = builder.build([chosen, product, a, product])
    program = compile_card(graph, machine)
    assert program.private_bytes > 4 * small_pages
    places = [place for step in program.layout.steps for _, each in step.stages for place in each]
    assert {first // small_pages for first, _ in places} >= {0, 1, 2, 3}
    program.release()
    require_right(machine, graph, [*arrays, indices])


@pytest.mark.parametrize(
    ("operator", "array", "attributes"),
    [
        ("reduce", np.arange(2000, dtype=np.float32), {"axes": (0,), "function": "sum"}),
        ("topk", np.arange(600, dtype=np.float32) % 7, {"axis": 0, "k": 5, "largest": True}),
        ("scan_reduce", np.ones(1500, np.int32), {"axis": 0, "function": "sum"}),
    ],
)
def test_kernels_with_room_of_their_own_in_small_pages(
    machine: Machine, small_pages: int, operator: str, array: Array, attributes: Any
) -> None:
    graph = graph_of(operator, [array], **attributes)
    assert array.nbytes <= small_pages
    require_right(machine, graph, [array])


def test_a_tensor_larger_than_a_page_is_refused(machine: Machine, small_pages: int) -> None:
    graph = graph_of("flip", [np.zeros(small_pages // 4 + 1, np.float32)], axes=(0,))
    with pytest.raises(EngineError) as raised:
        compile_card(graph, machine)
    assert raised.value.code == "does_not_fit_at_once"
    assert raised.value.fields["needed_bytes"] == small_pages + 4


def with_matrices(program: CardProgram) -> bool:
    return any(
        b"SPV_KHR_cooperative_matrix" in stage.words
        for step in program.layout.steps
        for stage, _ in step.stages
    )


UNITS = Units(8, {"float16": (Fragment(8, 8, 8),), "bfloat16": (Fragment(8, 8, 8),)})


@pytest.mark.parametrize("form", ["float16", "bfloat16"])
def test_matrix_units_serve_the_classes_that_round(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(machine.device, "units", UNITS)
    plain = graph_of("matmul", [np.zeros((64, 64), np.float32)] * 2)
    assert with_matrices(compile_card(in_class(plain, form), machine, form))
    stored = short_product(64, 64, 64, (False, True), form)
    program = compile_card(in_class(stored, form), machine, form)
    assert with_matrices(program)
    assert len([stage for step in program.layout.steps for stage in step.stages]) == 1


def test_matrix_units_serve_no_other_class(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.device, "units", UNITS)
    plain = graph_of("matmul", [np.zeros((64, 64), np.float32)] * 2)
    for numeric_class in ("float32", "tf32", "int8", "exact"):
        graph = in_class(plain, numeric_class)
        assert not with_matrices(compile_card(graph, machine, numeric_class))
    stored = short_product(64, 64, 64, (False, False), "float16")
    assert not with_matrices(compile_card(stored, machine, "float32"))


def test_shapes_that_no_unit_takes_and_refused_kernels_go_the_usual_way(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    odd = [random.standard_normal(shape).astype(np.float32) for shape in ((40, 41), (41, 43))]
    graph = in_class(graph_of("matmul", odd), "float16")
    monkeypatch.setattr(machine.device, "units", UNITS)
    assert not with_matrices(compile_card(graph, machine, "float16"))
    require_right(machine, graph, odd)
    whole = in_class(graph_of("matmul", [np.zeros((64, 64), np.float32)] * 2), "float16")
    stages = [
        stage
        for step in compile_card(whole, machine, "float16").layout.steps
        for stage, _ in step.stages
    ]
    lost = [kernel_name(stage.words) for stage in stages if b"cooperative" in stage.words]
    monkeypatch.setattr(machine, "refused", frozenset(lost))
    assert lost
    assert not with_matrices(compile_card(whole, machine, "float16"))
