"""Agreement of results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.ops.spectral import signs
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import VerifyError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph
from gpugoblin.verify import compare as comparing
from gpugoblin.verify.bias import FEWEST, Bias, added, projected
from gpugoblin.verify.compare import (
    CompareVerdict,
    compare,
    judge_recomputed,
    signed_error,
    unless_biased,
)
from gpugoblin.verify.spread import LARGEST, Tolerance
from tests.helpers.factors import graph_of, operands_of
from tests.helpers.float32 import evaluate_float32


def tanh_graph() -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (40, 30)))
    return builder.build([builder.add("formula", [x], tree=call_formula("tanh"))])


def product_graph() -> Graph:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (40, 30)))
    b = builder.input(TensorSpec("float32", (30, 200)))
    return builder.build([builder.add("matmul", [a, b])])


def integer_graph() -> Graph:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("int32", (40, 30)))
    return builder.build([builder.add("formula", [a, a], tree=call_formula("add"))])


def inputs_of(graph: Graph) -> list[Array]:
    random = np.random.default_rng(5)
    return [(random.standard_normal(spec.shape) * 3).astype(spec.dtype) for spec in graph.inputs]


@pytest.mark.parametrize("make", [tanh_graph, product_graph, integer_graph])
def test_equal_results_agree(make: object) -> None:
    graph: Graph = make()  # type: ignore[operator]
    inputs = inputs_of(graph)
    out = interpret(graph, inputs)
    assert compare(graph, inputs, out, out, "float32").accepted
    assert compare(graph, inputs, out, out, "exact").accepted


def test_rounding_is_allowed_in_class_float32_only() -> None:
    graph = tanh_graph()
    inputs = inputs_of(graph)
    out = interpret(graph, inputs)
    near = (np.nextafter(out[0], np.float32(2), dtype=np.float32),)
    verdict = compare(graph, inputs, out, near, "float32")
    assert verdict.accepted
    assert 0 < verdict.error <= 1
    assert compare(graph, inputs, out, near, "exact").code == "result_mismatch"


def test_more_than_rounding_is_refused() -> None:
    graph = tanh_graph()
    inputs = inputs_of(graph)
    out = interpret(graph, inputs)
    far = (out[0].copy(),)
    far[0][3, 3] += np.float32(1e-4)
    verdict = compare(graph, inputs, out, far, "float32")
    assert verdict.code == "result_mismatch"
    assert verdict.error > 1


def test_integers_must_be_equal() -> None:
    graph = integer_graph()
    inputs = inputs_of(graph)
    out = interpret(graph, inputs)
    other = (out[0].copy(),)
    other[0][0, 0] += 1
    assert not compare(graph, inputs, out, other, "float32").accepted


def test_nan_patterns_must_match() -> None:
    graph = tanh_graph()
    inputs = inputs_of(graph)
    inputs[0][2, 2] = np.nan
    out = interpret(graph, inputs)
    assert compare(graph, inputs, out, (out[0].copy(),), "float32").accepted
    elsewhere = (out[0].copy(),)
    elsewhere[0][5, 5] = np.nan
    verdict = compare(graph, inputs, out, elsewhere, "float32")
    assert not verdict.accepted
    assert verdict.error == np.inf
    missing = (out[0].copy(),)
    missing[0][2, 2] = 0
    assert not compare(graph, inputs, out, missing, "float32").accepted


def test_shapes_are_checked() -> None:
    graph = tanh_graph()
    inputs = inputs_of(graph)
    out = interpret(graph, inputs)
    for wrong in ((), (out[0][:3],), (out[0].astype(np.float64),)):
        with pytest.raises(VerifyError) as caught:
            compare(graph, inputs, out, wrong, "float32")
        assert caught.value.code == "result_shape"


def test_validator_judges_products_as_tightly_as_the_check() -> None:
    """The proven bound would let this error pass; the projection does not."""
    graph = product_graph()
    inputs = inputs_of(graph)
    own = interpret(graph, inputs)
    off = own[0].copy()
    off[0, 0] += np.float32(2e-4 * np.sqrt(np.mean(off**2)))
    assert judge_recomputed(graph, inputs, own, own, "float32").accepted
    verdict = judge_recomputed(graph, inputs, own, (off,), "float32")
    assert verdict.code == "result_mismatch"
    summed = np.zeros_like(off)
    for k in range(30):
        summed += np.multiply.outer(inputs[0][:, k], inputs[1][k])
    assert judge_recomputed(graph, inputs, own, (summed,), "float32").accepted


def test_validator_falls_back_where_projections_cannot_judge() -> None:
    graph = product_graph()
    inputs = inputs_of(graph)
    inputs[0][0, 0] = np.inf
    own = interpret(graph, inputs)
    assert judge_recomputed(graph, inputs, own, (own[0].copy(),), "float32").accepted
    off = own[0].copy()
    off[0, 0] = 1.0
    assert not judge_recomputed(graph, inputs, own, (off,), "float32").accepted


def test_validator_on_other_graphs() -> None:
    graph = tanh_graph()
    inputs = inputs_of(graph)
    own = interpret(graph, inputs)
    off = own[0].copy()
    off[0, 0] += np.float32(1e-3)
    assert not judge_recomputed(graph, inputs, own, (off,), "float32").accepted
    assert not judge_recomputed(graph, inputs, own, (off,), "exact").accepted


def judged(graph: Graph, inputs: list[Array], change: Callable[[Array], None]) -> CompareVerdict:
    own = interpret(graph, inputs)
    other = tuple(array.copy() for array in own)
    change(other[0])
    verdict = judge_recomputed(graph, inputs, own, other, "float32")
    assert compare(graph, inputs, own, other, "float32").accepted == verdict.accepted
    return verdict


def test_beside_a_pole_nobodys_word_is_taken() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (8, 64)))
    total = builder.add("reduce", [x], axes=(1,), function="sum")
    graph = builder.build([builder.add("formula", [total], tree=call_formula("log"))])
    cancelling = np.tile(np.array([1e8, -1e8], np.float32), (8, 32))
    verdict = judged(graph, [cancelling], lambda out: out.__setitem__(3, 777.0))
    assert (verdict.accepted, verdict.code) == (False, "result_open")


@pytest.mark.parametrize("index", [-99, 50])
def test_an_index_among_equals_is_not_taken_on_trust(index: int) -> None:
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (4, 32)))
    b = builder.input(TensorSpec("float32", (32, 100)))
    product = builder.add("matmul", [a, b])
    graph = builder.build([builder.add("reduce_arg", [product], axis=1, function="argmax")])
    random = np.random.default_rng(1)
    left = random.standard_normal((4, 32)).astype(np.float32)
    right = np.tile(random.standard_normal((32, 1)).astype(np.float32), (1, 100))
    verdict = judged(graph, [left, right], lambda out: out.__setitem__(0, index))
    assert (verdict.accepted, verdict.code) == (False, "result_open")


def test_a_bool_is_the_byte_0_or_1() -> None:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (8,)))
    graph = builder.build([builder.add("cast", [x], dtype="bool")])
    inputs = [np.arange(8, dtype=np.float32)]

    def change(out: Array) -> None:
        out.view(np.uint8)[3] = 7

    assert judged(graph, inputs, change).code == "result_mismatch"
    own = interpret(graph, inputs)
    odd = (own[0].copy(),)
    change(odd[0])
    assert not compare(graph, inputs, odd, own, "exact").accepted


def deep() -> tuple[Graph, list[Array]]:
    """A product behind a kink behind a product: its proven bound is wide."""
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", (256, 256))) for _ in range(3)]
    inner = builder.add("matmul", values[:2])
    inner = builder.add("formula", [inner], tree=call_formula("tanh"))
    graph = builder.build([builder.add("matmul", [inner, values[2]])])
    random = np.random.default_rng(2)
    return graph, [random.standard_normal((256, 256)).astype(np.float32) for _ in range(3)]


def test_where_the_proven_bound_says_little_it_is_measured() -> None:
    graph, inputs = deep()
    own = evaluate_float32(graph, inputs, 1)
    verdict = judge_recomputed(graph, inputs, own, evaluate_float32(graph, inputs, 2), "float32")
    assert verdict.accepted
    assert verdict.error < 0.5
    assert len(verdict.tolerance[0]) == 64
    assert max(verdict.tolerance[0]) < LARGEST
    lie = [own[0].copy()]
    lie[0][7, 7] += np.float32(1e-2 * np.sqrt(np.mean(own[0] ** 2)))
    assert not judge_recomputed(graph, inputs, own, lie, "float32").accepted


def test_signed_errors_are_those_of_right_results_that_differ() -> None:
    graph, inputs = deep()
    own, other = (evaluate_float32(graph, inputs, seed) for seed in (1, 2))
    good = judge_recomputed(graph, inputs, own, other, "float32")
    found = signed_error(graph, own, other, "float32", good, "ab", ())
    assert found == projected("ab", own, other, good.tolerance)
    assert any(found)
    bad = CompareVerdict(False, 2.0, 1.0, "result_mismatch")
    for kind, verdict, secret, theirs in (
        ("float32", good, "", other),
        ("float32", bad, "ab", other),
        ("exact", good, "ab", other),
        ("float32", good, "ab", own),
    ):
        assert signed_error(graph, own, theirs, kind, verdict, secret, ()) == ()  # type: ignore[arg-type] # a class
    product = product_graph()
    assert signed_error(product, own, other, "float32", good, "ab", ()) == ()
    assert unless_biased(good, (), found) is good
    errs = (40.0, 20.0, *(20.0 for _ in found))
    assert unless_biased(good, errs, ()) is good
    refused = unless_biased(good, errs, found)
    assert (refused.accepted, refused.code) == (False, "result_biased")
    assert refused.tolerance == good.tolerance


@pytest.mark.parametrize("size", [0.0, 0.3])
def test_who_errs_in_one_direction_within_the_tolerance_is_not_used(size: float) -> None:
    """Each result is right; of the liar's none is used from the 16th on, of the honest all are."""
    graph, inputs = deep()
    random = np.random.default_rng(3)
    direction = np.sign(random.standard_normal((256, 256))).astype(np.float32)
    tolerance: Tolerance = ()
    known: Bias = ()
    used = []
    for seed in range(FEWEST + 4):
        inputs[0] = random.standard_normal((256, 256)).astype(np.float32)
        own = evaluate_float32(graph, inputs, 1)
        theirs = evaluate_float32(graph, inputs, 2 + seed)
        if tolerance:
            rms = np.sqrt(np.mean(own[0] ** 2))
            theirs[0] += np.float32(size * np.median(tolerance[0]) * rms) * direction
        verdict = judge_recomputed(graph, inputs, own, theirs, "float32", tolerance)
        assert verdict.accepted
        tolerance = tolerance or verdict.tolerance
        signed = signed_error(graph, own, theirs, "float32", verdict, "ab", tolerance)
        used.append(unless_biased(verdict, known, signed).accepted)
        known = added(known, signed)
    assert used == [True] * (FEWEST - 1) + [size == 0.0] * 5


def test_what_was_measured_before_needs_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, inputs = deep()
    own, other = (evaluate_float32(graph, inputs, seed) for seed in (1, 2))
    known = judge_recomputed(graph, inputs, own, other, "float32").tolerance

    def never(*_: object) -> None:
        raise AssertionError("the reference was evaluated")

    monkeypatch.setattr(comparing, "allowed", never)
    monkeypatch.setattr(comparing, "measure", never)
    verdict = judge_recomputed(graph, inputs, own, other, "float32", known)
    assert (verdict.accepted, verdict.tolerance) == (True, ())
    lie = [other[0] * np.float32(1.01)]
    with pytest.raises(AssertionError, match="evaluated"):
        judge_recomputed(graph, inputs, own, lie, "float32", known)


def test_beyond_what_was_measured_on_other_inputs_it_is_measured_again() -> None:
    graph, inputs = deep()
    own, other = (evaluate_float32(graph, inputs, seed) for seed in (1, 2))
    tight = (tuple(1e-9 for _ in range(64)),)
    verdict = judge_recomputed(graph, inputs, own, other, "float32", tight)
    assert verdict.accepted
    assert min(verdict.tolerance[0]) > 1e-9


def test_no_contributor_has_a_part_in_what_is_measured() -> None:
    """Else the first of two makes the tolerance for itself, and for all that follow."""
    graph, inputs = deep()
    honest, other = (evaluate_float32(graph, inputs, seed) for seed in (1, 2))
    lie = [honest[0] + np.float32(4e-4 * np.sqrt(np.mean(honest[0] ** 2)))]
    alone = compare(graph, inputs, honest, other, "float32")
    assert alone.accepted
    for first, second in ((lie, honest), (honest, lie)):
        verdict = compare(graph, inputs, first, second, "float32")
        assert not verdict.accepted
        assert verdict.tolerance == alone.tolerance


def test_factors_are_judged_by_what_they_make_up() -> None:
    """The bound of a factorization is wide or infinite where the residual still tells."""
    operands = operands_of("svd", "two clusters", 60)
    graph = graph_of("svd", operands)
    own = interpret(graph, operands)
    # Any rotation inside of a cluster of equal values is as right.
    turn = np.eye(60)
    turn[:30, :30] = np.linalg.qr(np.random.default_rng(1).standard_normal((30, 30)))[0]
    u, vh = own[0] @ turn, turn.T @ own[2]
    sign = signs(u)
    theirs = [(u * sign).astype(np.float32), own[1], (vh * sign.T).astype(np.float32)]
    assert not compare(graph, operands, own, theirs, "float32").accepted
    assert judge_recomputed(graph, operands, own, theirs, "float32").accepted
    theirs[0][7, 9] += np.float32(0.01)
    verdict = judge_recomputed(graph, operands, own, theirs, "float32")
    assert (verdict.accepted, verdict.code) == (False, "result_mismatch")
