"""The check of factorizations by residuals: honest results pass, wrong ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.verify.forms import FactorForm, factor_form
from gpugoblin.verify.product import ProductVerdict
from gpugoblin.verify.residual import check_factors
from tests.helpers.factors import DEVICES, MATRICES, OPERATORS, graph_of, operands_of

SIZES = (1, 2, 3, 17, 48)


def form_of(operator: str, operands: list[Array]) -> FactorForm:
    form = factor_form(graph_of(operator, operands))
    assert form is not None
    return form


def honest(operator: str, device: str, operands: list[Array]) -> list[Array] | None:
    """None where there is no result."""
    try:
        with np.errstate(all="ignore"):
            found = list(DEVICES[operator][device](*operands))
    except np.linalg.LinAlgError:
        return None
    return found if all(np.isfinite(one).all() for one in found) else None


def verdict_of(operator: str, operands: list[Array], results: list[Array]) -> ProductVerdict:
    return check_factors(form_of(operator, operands), operands, results)


def accepted_everywhere(operator: str, sizes: tuple[int, ...], seeds: int) -> int:
    count = 0
    for kind in MATRICES:
        for n in sizes:
            for seed in range(seeds):
                operands = operands_of(operator, kind, n, seed)
                for device in DEVICES[operator]:
                    results = honest(operator, device, operands)
                    if results is not None:
                        verdict = verdict_of(operator, operands, results)
                        assert verdict.accepted, (operator, kind, n, seed, device, verdict)
                        count += 1
    return count


@pytest.mark.parametrize("operator", OPERATORS)
def test_honest_results_pass(operator: str) -> None:
    assert accepted_everywhere(operator, SIZES, 1) > 100


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operator", OPERATORS)
def test_honest_results_pass_of_all_sizes(operator: str) -> None:
    assert accepted_everywhere(operator, (1, 2, 5, 64, 200), 4) > 600
    assert accepted_everywhere(operator, (400,), 1) > 10


@pytest.mark.parametrize("operator", OPERATORS)
def test_one_wrong_element_is_found(operator: str) -> None:
    """Each result in turn, at places of all its rows, by a hundredth of its root mean square."""
    random = np.random.default_rng(1)
    operands = operands_of(operator, "normal", 96)
    results = honest(operator, "rounded", operands)
    assert results is not None
    for number, result in enumerate(results):
        if result.dtype.kind != "f":
            continue
        size = 0.01 * np.sqrt(np.mean(np.square(result[result != 0], dtype=np.float64)))
        for _ in range(20):
            at = tuple(int(random.integers(extent)) for extent in result.shape)
            wrong = [one.copy() for one in results]
            wrong[number][at] += np.float32(size * random.choice((-1, 1)))
            verdict = verdict_of(operator, operands, wrong)
            assert verdict.code == "product_mismatch", (number, at)
            assert not verdict.accepted


def test_small_rows_are_checked_as_sharply() -> None:
    """No large row of a graded matrix excuses an error in a small one."""
    for operator in ("cholesky", "lu", "solve", "triangular_solve"):
        operands = operands_of(operator, "rows graded", 60)
        results = honest(operator, "rounded", operands)
        assert results is not None
        wrong = [one.copy() for one in results]
        row = -1 if operator in ("cholesky", "lu") else 30
        wrong[0][row] *= np.float32(1.01)
        assert not verdict_of(operator, operands, wrong).accepted, operator


@pytest.mark.parametrize("size", [1e-20, 1e-31, 1e-42])
@pytest.mark.parametrize("operator", ["lu", "qr", "triangular_solve", "solve"])
def test_a_column_of_subnormals_excuses_nothing_in_others(operator: str, size: float) -> None:
    """What flushing makes of a column is allowed in it, and in it alone."""
    operands = operands_of(operator, "normal", 24)
    small = operands[-1]
    small[:, 5] = 0
    small[3, 5] = size
    results = honest(operator, "rounded", operands)
    assert results is not None
    assert verdict_of(operator, operands, results).accepted
    for column in range(6, small.shape[1]):
        wrong = [one.copy() for one in results]
        wrong[1 if operator == "qr" else 0][:, column] *= np.float32(1.001)
        verdict = verdict_of(operator, operands, wrong)
        assert verdict.code == "product_mismatch", (column, verdict)


def spoiled(operator: str, change: object, n: int = 40) -> ProductVerdict:
    operands = operands_of(operator, "normal", n)
    results = [one.copy() for one in honest(operator, "rounded", operands) or []]
    change(*results)  # type: ignore[operator]
    return verdict_of(operator, operands, results)


def test_the_result_must_be_the_one_that_the_catalog_means() -> None:
    """Other factors of the same matrix are refused."""

    def turned(*results: Array) -> None:
        """A column of the vectors with the other sign."""
        results[0][:, 3] *= -1
        if results[-1].ndim == 2:
            results[-1][3] *= -1

    def swapped(*results: Array) -> None:
        """Two vectors with their values."""
        results[0][:, [3, 4]] = results[0][:, [4, 3]]
        for one in results[1:]:
            one[[3, 4]] = one[[4, 3]]

    for operator in ("qr", "eigh", "svd"):
        assert spoiled(operator, turned).code == "product_mismatch", operator
    for operator in ("eigh", "svd"):
        assert spoiled(operator, swapped).code == "product_mismatch", operator
    assert not spoiled("cholesky", lambda lower: np.negative(lower, out=lower)).accepted

    def unpivoted(both: Array, order: Array) -> None:
        """Gauss without a choice of pivots: right factors with large multipliers."""
        a = operands_of("lu", "normal", 40)[0].astype(np.float64)
        for k in range(40):
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
        both[...], order[...] = a, np.arange(40)

    assert not spoiled("lu", unpivoted).accepted
    assert not spoiled("lu", lambda both, order: order.fill(0)).accepted
    assert not spoiled("lu", lambda both, order: np.add(order, -1, out=order)).accepted
    assert not spoiled("cholesky", lambda lower: lower.__setitem__((0, 5), 1e-30)).accepted
    assert not spoiled("qr", lambda q, r: r.__setitem__((5, 0), 1e-30)).accepted


def test_vectors_that_are_not_orthonormal_are_refused() -> None:
    """A = Q R holds for Q C and C^-1 R, too."""

    def scaled(q: Array, r: Array) -> None:
        q[:, 2] *= np.float32(1.001)
        r[2] /= np.float32(1.001)

    assert not spoiled("qr", scaled).accepted

    def zero(u: Array, s: Array, vh: Array) -> None:
        """A value of zero hides what its vectors are."""
        u[:, -1] = 0
        u[0, -1] = 1

    operands = operands_of("svd", "of low rank", 40)
    results = [one.copy() for one in honest("svd", "rounded", operands) or []]
    zero(*results)
    assert not verdict_of("svd", operands, results).accepted


def test_no_result_is_told_from_a_wrong_one() -> None:
    nothing = np.full((4, 4), np.nan, np.float32)
    good, broken = np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32)
    broken[1, 1] = np.inf
    indefinite = np.diag(np.array([1, 1, -1, 1], np.float32))
    assert verdict_of("cholesky", [broken], [nothing]).accepted
    assert verdict_of("cholesky", [indefinite], [nothing]).accepted
    assert verdict_of("cholesky", [good], [nothing]).code == "product_undecidable"
    assert verdict_of("cholesky", [broken], [good]).code == "product_mismatch"
    assert verdict_of("cholesky", [indefinite], [good]).code == "product_mismatch"
    partly = good.copy()
    partly[2, 1] = np.nan
    assert verdict_of("cholesky", [good], [partly]).code == "product_mismatch"
    assert verdict_of("lu", [broken], [nothing, np.arange(4)]).accepted
    assert not verdict_of("lu", [broken], [nothing, np.arange(4)[::-1]]).accepted
    singular = np.diag(np.array([1, 0, 1, 1], np.float32))
    right = np.array([[1], [0], [1], [1]], np.float32)
    assert verdict_of("triangular_solve", [singular, right], [nothing[:, :1]]).accepted
    assert not verdict_of("triangular_solve", [singular, right], [right]).accepted
    assert verdict_of("solve", [good, right], [nothing[:, :1]]).code == "product_undecidable"


def test_each_matrix_of_a_batch_is_checked() -> None:
    random = np.random.default_rng(3)
    a = random.standard_normal((2, 3, 20, 20)).astype(np.float32)
    results = list(DEVICES["eigh"]["rounded"](a + a.swapaxes(-1, -2)))
    operands = [a + a.swapaxes(-1, -2)]
    assert verdict_of("eigh", operands, results).accepted
    results[1][1, 2, 7] += np.float32(0.01)
    assert not verdict_of("eigh", operands, results).accepted


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_every_triangle(lower: bool, transpose: bool, unit: bool) -> None:
    random = np.random.default_rng(4)
    a = (random.standard_normal((30, 30)) + 6 * np.eye(30)).astype(np.float32) / 6
    b = random.standard_normal((30, 5)).astype(np.float32)
    builder = GraphBuilder()
    values = [builder.input(TensorSpec("float32", one.shape)) for one in (a, b)]
    solved = builder.add(
        "triangular_solve", values, lower=lower, transpose=transpose, unit_diagonal=unit
    )
    form = factor_form(builder.build([solved]))
    assert form is not None
    triangle = (np.tril if lower else np.triu)(a.astype(np.float64))
    if unit:
        np.fill_diagonal(triangle, 1)
    x = np.linalg.solve(triangle.T if transpose else triangle, b).astype(np.float32)
    assert check_factors(form, [a, b], [x]).accepted
    wrong = np.linalg.solve(triangle if transpose else triangle.T, b).astype(np.float32)
    assert not check_factors(form, [a, b], [wrong]).accepted


def test_float64_is_checked_in_its_own_precision() -> None:
    random = np.random.default_rng(5)
    a = random.standard_normal((50, 50))
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float64", a.shape))
    form = factor_form(builder.build(list(builder.add_many("qr", [value]))))
    assert form is not None
    q, r = DEVICES["qr"]["rounded"](a)
    assert q.dtype == np.float64
    assert check_factors(form, [a], [q, r]).accepted
    r[3, 7] += 1e-10
    assert not check_factors(form, [a], [q, r]).accepted


def test_numbers_beyond_squares_are_left_to_a_second_computation() -> None:
    a = np.eye(5) * 1e200
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float64", a.shape))
    form = factor_form(builder.build(list(builder.add_many("lu", [value]))))
    assert form is not None
    verdict = check_factors(form, [a], [a, np.arange(5)])
    assert verdict.code == "product_undecidable"
    assert not verdict.accepted


@pytest.mark.parametrize("operator", ["lu", "qr", "eigh", "svd"])
def test_numbers_whose_squares_vanish_are_left_to_a_second_computation(operator: str) -> None:
    """Honest ones are not called wrong, and wrong ones are not taken for rounding."""
    a = np.diag([1e-170, 2e-170, 3e-170])
    builder = GraphBuilder()
    value = builder.input(TensorSpec("float64", a.shape))
    form = factor_form(builder.build(list(builder.add_many(operator, [value]))))
    assert form is not None
    results = [np.asarray(one) for one in registry.get(operator, 1).reference([a], {})]
    if operator == "lu":
        results[0] += np.tril(np.full_like(a, 1e-9), -1)
    for factor in (1.0, 1.5):
        wrong = [one * factor if np.abs(one).max() < 1e-100 else one for one in results]
        assert check_factors(form, [a], wrong).code == "product_undecidable"


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0)])
def test_matrices_without_elements(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, np.float32)
    operators = ["svd", "qr"]
    if shape[-1] == shape[-2]:
        operators += ["eigh", "lu", "cholesky"]
    for operator in operators:
        results = [np.asarray(one) for one in registry.get(operator, 1).reference([a], {})]
        assert verdict_of(operator, [a], results).accepted, operator
