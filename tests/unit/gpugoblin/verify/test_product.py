"""The product check: honest results pass, every single wrong element is caught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import VerifyError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.verify.forms import ProductForm, product_form
from gpugoblin.verify.product import (
    ProductCheck,
    ProductVerdict,
    check_product,
    project_right,
    row_energy,
)


def product_graph(
    rows: int,
    inner: int,
    columns: int,
    *,
    dtype: str = "float32",
    batch: tuple[int, ...] = (),
    ta: bool = False,
    tb: bool = False,
    carry: bool = False,
) -> Graph:
    builder = GraphBuilder()
    a = builder.input(TensorSpec(dtype, (*batch, *((inner, rows) if ta else (rows, inner)))))
    b = builder.input(TensorSpec(dtype, (*batch, *((columns, inner) if tb else (inner, columns)))))
    c = builder.input(TensorSpec(dtype, (*batch, rows, columns))) if carry else None
    out = builder.add("matmul", [a, b], transpose_a=ta, transpose_b=tb)
    if c is not None:
        out = builder.add("formula", [out, c], tree=call_formula("add"))
    return builder.build([out])


def make_inputs(graph: Graph, seed: int, kind: str = "normal") -> list[Array]:
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for spec in graph.inputs:
        if spec.dtype != "float32":
            info = np.iinfo(DTYPES[spec.dtype])
            arrays.append(random.integers(info.min, info.max, spec.shape, DTYPES[spec.dtype]))
            continue
        array = random.standard_normal(spec.shape)
        if kind == "positive":
            array = np.abs(array)
        elif kind == "whole":
            array = np.floor(array * 40)
        elif kind == "sparse":
            array *= random.random(spec.shape) < 0.1
        elif kind == "uneven":
            array *= np.exp(random.standard_normal(spec.shape[-1:]) * 3)
        arrays.append(array.astype(np.float32))
    return arrays


def naive(a: Array, b: Array) -> Array:
    """Summed one product after the other, as the simplest device does."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        out += np.multiply.outer(a[:, k], b[k])
    return out


shapes = st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 300))


@given(
    shapes,
    st.sampled_from(["normal", "positive", "whole", "sparse", "uneven"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (1,), (2, 2)]),
    st.integers(0, 2**32),
)
@settings(max_examples=120, deadline=None)
def test_honest_results_pass(
    shape: tuple[int, int, int],
    kind: str,
    ta: bool,
    tb: bool,
    carry: bool,
    batch: tuple[int, ...],
    seed: int,
) -> None:
    graph = product_graph(*shape, batch=batch, ta=ta, tb=tb, carry=carry)
    inputs = make_inputs(graph, seed, kind)
    verdict = check_product(graph, inputs, interpret(graph, inputs)[0])
    assert verdict.accepted, verdict


@given(shapes, st.sampled_from(["int32", "int64"]), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_honest_integers_pass_and_wrap(
    shape: tuple[int, int, int], dtype: str, carry: bool, seed: int
) -> None:
    graph = product_graph(*shape, dtype=dtype, carry=carry)
    inputs = make_inputs(graph, seed)
    out = interpret(graph, inputs)[0]
    assert check_product(graph, inputs, out) == ProductVerdict(True, 0.0, 0.0)
    if out.size:
        random = np.random.default_rng(seed)
        at = tuple(int(random.integers(extent)) for extent in out.shape)
        bit = out.dtype.type(1) << out.dtype.type(random.integers(out.dtype.itemsize * 8 - 1))
        out[at] ^= bit
        verdict = check_product(graph, inputs, out)
        assert verdict.code == "product_mismatch"
        assert verdict.error == 1


@pytest.mark.parametrize("kind", ["normal", "positive", "whole", "sparse"])
@pytest.mark.parametrize("inner", [1, 17, 500])
def test_the_simplest_device_passes(kind: str, inner: int) -> None:
    graph = product_graph(40, inner, 700)
    inputs = make_inputs(graph, inner, kind)
    assert check_product(graph, inputs, naive(*inputs)).accepted


@given(st.integers(0, 2**32), st.sampled_from([1.0, -1.0]))
@settings(max_examples=60, deadline=None)
def test_every_single_wrong_element_is_caught(seed: int, sign: float) -> None:
    """2e-4 of the root mean square, anywhere, at 4096 columns; 2048 rows are checked in pieces."""
    random = np.random.default_rng(seed)
    graph = product_graph(8, 64, 4096)
    inputs = make_inputs(graph, seed)
    out = interpret(graph, inputs)[0]
    rms = np.sqrt(np.mean(out.astype(np.float64) ** 2))
    out[random.integers(8), random.integers(4096)] += np.float32(sign * 2e-4 * rms)
    verdict = check_product(graph, inputs, out)
    assert verdict.code == "product_mismatch"
    assert verdict.error > verdict.threshold


@pytest.mark.slow
def test_every_single_wrong_element_is_caught_at_full_length() -> None:
    random = np.random.default_rng(7)
    graph = product_graph(64, 16384, 4096)
    inputs = make_inputs(graph, 7)
    honest = np.matmul(*inputs)
    rms = np.sqrt(np.mean(honest.astype(np.float64) ** 2))
    form = product_form(graph)
    assert form is not None
    hands = project_right(form, inputs[1])
    assert check_product(graph, inputs, honest, hands).accepted
    missed = 0
    for _ in range(200):
        out = honest.copy()
        out[random.integers(64), random.integers(4096)] += np.float32(2e-4 * rms)
        missed += check_product(graph, inputs, out, hands).accepted
    assert missed == 0


@pytest.mark.parametrize("columns", [1, 5, 127, 128, 129, 1000])
@pytest.mark.parametrize("where", ["first", "last"])
def test_first_and_last_column_of_any_width(columns: int, where: str) -> None:
    graph = product_graph(3, 20, columns)
    inputs = make_inputs(graph, columns)
    out = interpret(graph, inputs)[0]
    out[1, 0 if where == "first" else -1] += np.float32(np.abs(out).max() * 1e-2)
    assert not check_product(graph, inputs, out).accepted


def test_errors_that_cancel_are_caught() -> None:
    """Pairs of equal and opposite errors, whole rows, swapped rows, a scaled result."""
    graph = product_graph(64, 100, 512)
    inputs = make_inputs(graph, 3)
    honest = interpret(graph, inputs)[0]
    lies = []
    pair = honest.copy()
    pair[5, 7] += 1.0
    pair[5, 8] -= 1.0
    lies.append(pair)
    swapped = honest.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    lies.append(swapped)
    lies.append(honest * np.float32(1.001))
    lies.append(np.zeros_like(honest))
    lies.append(inputs[0].astype(np.float16).astype(np.float32) @ inputs[1])
    for lie in lies:
        assert check_product(graph, inputs, lie).code == "product_mismatch"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_result_of_finite_operands_is_refused(bad: float) -> None:
    graph = product_graph(10, 10, 200)
    inputs = make_inputs(graph, 1)
    out = interpret(graph, inputs)[0]
    out[3, 3] = bad
    assert check_product(graph, inputs, out).code == "product_mismatch"


@pytest.mark.parametrize("operand", [0, 1, 2])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_operands_that_cannot_be_judged(operand: int, bad: float) -> None:
    graph = product_graph(10, 10, 200, carry=True)
    inputs = make_inputs(graph, 1)
    inputs[operand][3, 3] = bad
    out = interpret(graph, inputs)[0]
    verdict = check_product(graph, inputs, out)
    assert not verdict.accepted
    assert verdict.code == "product_undecidable"


@pytest.mark.parametrize("huge", [1e6, 1e15, 2e19, 3e19, 1e30, -3.4e38])
@pytest.mark.parametrize("spread", [1, 2, 300])
def test_a_huge_lie_does_not_excuse_itself(huge: float, spread: int) -> None:
    """The scale may grow with the result, so a lie must never grow it faster than it shows."""
    graph = product_graph(40, 64, 300)
    a, b = make_inputs(graph, 3)
    wrong = (a @ b).astype(np.float32)
    wrong[7, :spread] = huge
    verdict = check_product(graph, [a, b], wrong)
    assert not verdict.accepted
    assert verdict.code == "product_mismatch"


def test_rows_that_resemble_some_columns_only() -> None:
    """Like patches of photographs: honest rounding is large in a few blocks of columns."""
    random = np.random.default_rng(0)
    directions = np.repeat(random.standard_normal((30, 192)), 100, axis=0)
    patches = directions + 0.05 * random.standard_normal(directions.shape)
    patches = (patches / np.linalg.norm(patches, axis=1, keepdims=True)).astype(np.float32)
    graph = product_graph(600, 192, 3000, tb=True)
    for shift in range(0, 3000, 500):
        left = np.roll(patches, shift, axis=0)[:600]
        verdict = check_product(graph, [left, patches], left @ patches.T)
        assert verdict.error < 0.8 * verdict.threshold


def test_vanishing_operands_are_not_judged() -> None:
    graph = product_graph(4, 4, 50)
    inputs = [array * np.float32(1e-25) for array in make_inputs(graph, 1)]
    assert check_product(graph, inputs, np.zeros((4, 50), np.float32)).code == "product_undecidable"


def test_zero_operands() -> None:
    graph = product_graph(4, 4, 50)
    inputs: list[Array] = [np.zeros((4, 4), np.float32), np.ones((4, 50), np.float32)]
    out = np.zeros((4, 50), np.float32)
    assert check_product(graph, inputs, out).accepted
    out[0, 0] = 1e-6
    assert not check_product(graph, inputs, out).accepted


def test_pieces_and_shared_hands() -> None:
    graph = product_graph(50, 30, 400, carry=True)
    inputs = make_inputs(graph, 9)
    form = product_form(graph)
    assert form is not None
    hands = project_right(form, inputs[1])
    out = interpret(graph, inputs)[0]
    check = ProductCheck(form, inputs[0], hands, inputs[2], row_energy(inputs[0]))
    assert check.take(0, out[:17])
    assert check.take(17, out[17:])
    assert check.verdict().accepted
    out[40, 0] += 1
    check = ProductCheck(form, inputs[0], hands, inputs[2])
    assert check.take(0, out[:40])
    assert not check.take(40, out[40:])
    assert check.verdict().code == "product_mismatch"


def test_pieces_across_batch_indices() -> None:
    graph = product_graph(3, 5, 40, batch=(4,))
    inputs = make_inputs(graph, 2)
    form = product_form(graph)
    assert form is not None
    out = interpret(graph, inputs)[0].reshape(12, 40)
    check = ProductCheck(form, inputs[0], project_right(form, inputs[1]))
    assert check.take(0, out[:7])
    assert check.take(7, out[7:])
    assert check.verdict().accepted


def test_a_false_carry_is_caught() -> None:
    graph = product_graph(20, 10, 300, carry=True)
    inputs = make_inputs(graph, 4)
    out = interpret(graph, inputs)[0]
    wrong = [inputs[0], inputs[1], inputs[2] + np.float32(0.1)]
    assert not check_product(graph, wrong, out).accepted


def test_worse() -> None:
    good = ProductVerdict(True, 1.0, 2.0)
    bad = ProductVerdict(False, 3.0, 2.0, "product_mismatch")
    unknown = ProductVerdict(False, 0.0, 2.0, "product_undecidable")
    assert good.worse(good) == good
    assert good.worse(bad) == bad
    assert bad.worse(unknown) == unknown
    assert unknown.worse(bad) == unknown


def test_misuse() -> None:
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float32", (3,)))
    with pytest.raises(VerifyError) as caught:
        check_product(builder.build([value]), [np.zeros(3)], np.zeros(3))
    assert caught.value.code == "not_a_product"
    graph = product_graph(3, 3, 3)
    with pytest.raises(VerifyError) as caught:
        check_product(graph, make_inputs(graph, 0), np.zeros((3, 4), np.float32))
    assert caught.value.code == "result_shape"


def test_form_with_rows() -> None:
    form = product_form(product_graph(30, 4, 5))
    assert form is not None
    assert form.with_rows(7) == ProductForm(0, 1, None, False, False, (), 7, 4, 5, "float32")


def columns_of_all_sizes(seed: int = 0) -> tuple[Graph, list[Array]]:
    """Every second column a hundred million times smaller, and one of zeros."""
    graph = product_graph(40, 64, 300)
    a, b = make_inputs(graph, seed)
    b[:, ::2] *= 1e6
    b[:, 1::2] *= 1e-2
    b[:, 7] = 0
    return graph, [a, b]


@pytest.mark.parametrize("spoil", ["doubled", "gone", "beside_zeros", "nan_beside_zeros"])
def test_small_columns_do_not_hide_behind_large_ones(spoil: str) -> None:
    graph, (a, b) = columns_of_all_sizes()
    honest = a @ b
    assert check_product(graph, [a, b], honest).accepted
    wrong = honest.copy()
    if spoil == "doubled":
        wrong[:, 3] *= 2
    elif spoil == "gone":
        wrong[:, 1::2] = 0
    else:
        wrong[5, 7] = np.nan if spoil == "nan_beside_zeros" else 1e-3
    assert check_product(graph, [a, b], wrong).code == "product_mismatch"


def test_what_is_carried_past_a_column_of_zeros_stays() -> None:
    graph = product_graph(40, 64, 300, carry=True)
    a, b, carry = make_inputs(graph, 3)
    b[:, 7] = 0
    honest = a @ b + carry
    assert check_product(graph, [a, b, carry], honest).accepted
    honest[0, 7] = np.nextafter(honest[0, 7], np.float32(np.inf))
    assert not check_product(graph, [a, b, carry], honest).accepted


@pytest.mark.parametrize("spread", [1, 3, 6])
def test_columns_of_all_sizes_raise_no_false_alarm(spread: int) -> None:
    graph = product_graph(40, 2048, 300)
    a, b = make_inputs(graph, spread)
    b *= np.exp(np.random.default_rng(spread).standard_normal(300) * spread).astype(np.float32)
    summed = np.zeros((40, 300), np.float32)
    for k in range(2048):
        summed += np.multiply.outer(a[:, k], b[k])
    for result in (a @ b, summed):
        verdict = check_product(graph, [a, b], result)
        assert verdict.accepted, verdict
