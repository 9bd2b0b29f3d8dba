from __future__ import annotations

from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.catalog.formula_grad import derivatives


def test_a_derivative_reads_only_what_it_needs() -> None:
    by_x, by_y = derivatives(call_formula("mul"), ["float32", "float32"])
    assert by_x is not None
    assert by_y is not None
    assert (by_x.reads, by_y.reads) == ((1, 2), (0, 2))
    assert by_x.tree == by_y.tree
    assert check_formula(by_x.tree, ["float32", "float32"])[-1] == "float32"
    assert by_x.fits


def test_the_derivative_of_a_sum_is_the_seed() -> None:
    found = derivatives(call_formula("add"), ["float32", "float32"])
    assert [one.reads for one in found if one is not None] == [(2,), (2,)]


def test_shares_of_a_value_that_is_used_twice_are_added() -> None:
    build = FormulaBuilder()
    x = build.input(0)
    (found,) = derivatives(build.build(build.call("mul", x, x)), ["float32"])
    assert found is not None
    assert found.tree.nodes[-1].function == "add"


def test_steps_and_other_dtypes_have_none() -> None:
    assert derivatives(call_formula("floor"), ["float32"]) == (None,)
    assert derivatives(call_formula("add"), ["int32", "int32"]) == (None, None)
    assert derivatives(call_formula("lt"), ["float32", "float32"]) == (None, None)
    build = FormulaBuilder()
    cast = build.build(build.cast(build.input(0), "float32"))
    assert derivatives(cast, ["int64"]) == (None,)
