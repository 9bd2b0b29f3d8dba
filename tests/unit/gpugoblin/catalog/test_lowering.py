"""The functions of the exact class, in float32 arithmetic alone, against float64 references."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.formula_eval import evaluate_formula, formula_errors
from gpugoblin.catalog.lowering import BASIC, LOWERED, lower_formula
from gpugoblin.catalog.plain import evaluate_plain
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import Array

ULPS = {"exp": 1.0, "log": 0.9, "tanh": 1.4, "erf": 1.5, "sin": 1.7, "cos": 1.7}
"""How far each may lie from the exact value, in units in the last place of the result (2 are
promised)."""
EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 88.72284, 88.7229, -87.33655, -103.97, -104.0, np.inf,
     -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, 0.625, 0.93, 4.0, 0.70710677,
     0.7853981, 1.5707964, 3.1415927, 6.2831855, 16367173.0, 2.5378897e38, 1.4142135],
    np.float32,
)  # fmt: skip


def sampled(count: int) -> Array:
    """Every exponent alike, both signs, and the edges."""
    generator = np.random.default_rng(4)
    bits = generator.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
    near = (generator.standard_normal(count // 4) * 8).astype(np.float32)
    return np.concatenate([bits.view(np.float32), near, EDGES])


def exact(name: str, values: Array) -> Array:
    """The reference in float64; of erf only where it is not 1 or linear, as it is slow."""
    wide = values.astype(np.float64)
    if name != "erf":
        return np.asarray(SCALARS[name].evaluate(wide))
    result = np.where(np.abs(wide) < 2.0**-13, wide * (2 / np.sqrt(np.pi)), np.sign(wide))
    middle = (np.abs(wide) >= 2.0**-13) & (np.abs(wide) < 4.5)
    result[middle] = SCALARS["erf"].evaluate(wide[middle])
    return np.asarray(result)


def worst(name: str, values: Array) -> float:
    """The largest error in units in the last place; infinite where a special value is wrong."""
    tree = lower_formula(call_formula(name), ["float32"])
    with np.errstate(all="ignore"):
        found = evaluate_plain(tree, [values])
        wanted = exact(name, values)
        nearest = wanted.astype(np.float32)
        unit = np.spacing(np.abs(np.where(np.isfinite(nearest), nearest, 1)).astype(np.float32))
        error = np.abs(found - wanted) / unit
    same = (found == nearest) | (np.isnan(found) & np.isnan(nearest))
    error = np.where(same & ~np.isfinite(nearest), 0.0, error)
    return float(np.max(np.where(np.isnan(error), np.inf, error)))


@pytest.mark.parametrize("name", ULPS)
def test_functions_stay_within_their_units_in_the_last_place(name: str) -> None:
    assert worst(name, sampled(60_000)) <= ULPS[name]


def every_float32() -> Iterator[Array]:
    for start in range(0, 2**32, 2**16):
        yield np.arange(start, start + 2**16, dtype=np.uint32).view(np.float32)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ULPS)
def test_functions_stay_within_two_units_for_every_float32(name: str) -> None:
    assert max(worst(name, values) for values in every_float32()) <= ULPS[name]


def operands(name: str) -> list[Array]:
    values = sampled(4_000)
    generator = np.random.default_rng(5)
    return [generator.permutation(values) for _ in range(SCALARS[name].arity)]


@pytest.mark.parametrize("name", LOWERED)
def test_every_lowered_function_is_an_honest_evaluation(name: str) -> None:
    inputs = operands(name)
    tree = lower_formula(call_formula(name), ["float32"] * len(inputs))
    with np.errstate(all="ignore"):
        found = evaluate_plain(tree, inputs)
        reference = evaluate_formula(call_formula(name), inputs)
        error = formula_errors(call_formula(name), inputs, [None] * len(inputs))
        distance = np.abs(found.astype(np.float64) - reference)
    same = (found == reference) | (np.isnan(found) & np.isnan(reference))
    allowed = np.zeros(found.shape) if error is None else error
    wrong = ~(same | (distance <= allowed) | np.isinf(allowed))
    assert not wrong.any(), [x[wrong][:3] for x in (*inputs, found, reference)]


ODD = (
    "asin", "asinh", "atan", "atanh", "cbrt", "erf", "erfinv", "expm1", "log1p", "sin", "sinh",
    "tan", "tanh",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_zero_keeps_its_sign(name: str) -> None:
    tree = lower_formula(call_formula(name), ["float32"])
    found = evaluate_plain(tree, [np.array([0.0, -0.0], np.float32)])
    assert found.view(np.uint32).tolist() == [0, 2**31]


def test_zero_has_no_sign() -> None:
    tree = lower_formula(call_formula("sign"), ["float32"])
    found = evaluate_plain(tree, [np.array([0.0, -0.0, -3.0, np.nan], np.float32)])
    assert np.signbit(found[:3]).tolist() == [False, False, True]
    assert np.isnan(found[3])


def test_lowered_trees_have_basic_functions_only() -> None:
    for name in LOWERED:
        tree = lower_formula(call_formula(name), ["float32"] * SCALARS[name].arity)
        kinds = {node.function for node in tree.nodes} - {"input", "const", "cast"}
        assert kinds <= BASIC | {"max", "min"}, (name, kinds - BASIC)
        floats = evaluated_dtypes(tree)
        assert all(dtype != "float32" for kind, dtype in floats if kind in LOWERED), name


def evaluated_dtypes(tree: object) -> list[tuple[str, str]]:
    from gpugoblin.catalog.formula import Formula

    assert isinstance(tree, Formula)
    dtypes: list[str] = []
    found = []
    for node in tree.nodes:
        operands = [dtypes[operand] for operand in node.operands]
        if node.function in ("input", "const", "cast"):
            dtypes.append(node.dtype or "float32")
            continue
        found.append((node.function, operands[0]))
        dtypes.append(SCALARS[node.function].dtype_rule(operands) or "")
    return found


def test_integers_and_basic_functions_stay_as_they_are() -> None:
    for name, dtype in (
        ("max", "int32"),
        ("pow", "int64"),
        ("add", "float32"),
        ("fmod", "float32"),
    ):
        tree = call_formula(name)
        assert lower_formula(tree, [dtype, dtype]) == tree


@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("pow", [(-2.0, 3.0), (-2.0, 2.0), (-0.0, -3.0), (0.0, 0.0), (1.0, np.nan), (-1.0, np.inf),
                 (-2.0, 0.5), (np.inf, -1.0), (-np.inf, 3.0), (np.nan, 0.0)],
         [-8.0, 4.0, -np.inf, 1.0, 1.0, 1.0, np.nan, 0.0, -np.inf, 1.0]),
        ("atan2", [(0.0, -1.0), (-0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (np.inf, np.inf),
                   (-0.0, -0.0)],
         [np.pi, -np.pi, 0.0, np.pi / 2, np.pi / 4, -np.pi]),
        ("hypot", [(np.inf, np.nan), (3e38, 0.0), (0.0, 0.0), (3.0, 4.0)],
         [np.inf, 3e38, 0.0, 5.0]),
        ("min", [(0.0, -0.0), (-0.0, 0.0), (np.nan, 1.0), (1.0, np.nan)],
         [-0.0, 0.0, np.nan, np.nan]),
        ("fmin", [(np.nan, 1.0), (1.0, np.nan), (2.0, 1.0)], [1.0, 1.0, 1.0]),
        ("nextafter", [(0.0, -1.0), (1.0, 2.0), (-1.0, -2.0), (2.0, 2.0)],
         [-1e-45, 1.0000001, -1.0000001, 2.0]),
    ],
)  # fmt: skip
def test_special_values(name: str, values: list[tuple[float, float]], wanted: list[float]) -> None:
    columns = [np.array(column, np.float32) for column in zip(*values, strict=True)]
    with np.errstate(all="ignore"):
        found = evaluate_plain(lower_formula(call_formula(name), ["float32"] * 2), columns)
    expected = np.array(wanted, np.float32)
    np.testing.assert_allclose(found, expected, rtol=2e-7)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


def test_a_nested_expression_is_lowered_throughout() -> None:
    builder = FormulaBuilder()
    x = builder.input(0)
    tree = builder.build(builder.call("exp", builder.call("tanh", x)))
    values = np.linspace(-3, 3, 50, dtype=np.float32)
    found = evaluate_plain(lower_formula(tree, ["float32"]), [values])
    np.testing.assert_allclose(found, np.exp(np.tanh(values.astype(float))), rtol=4e-7)
