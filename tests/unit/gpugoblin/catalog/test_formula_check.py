from __future__ import annotations

from typing import Any

import pytest

from gpugoblin.catalog.formula import MAX_FORMULA_INPUTS, MAX_FORMULA_NODES, Formula, FormulaNode
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.errors import GraphError

X = FormulaNode("input")


def test_dtypes_of_every_node() -> None:
    builder = FormulaBuilder()
    test = builder.call("gt", builder.input(0), builder.const("float32", 1.0))
    tree = builder.build(builder.cast(test, "int64"))
    assert check_formula(tree, ["float32"]) == ("float32", "float32", "bool", "int64")


BROKEN: dict[str, tuple[tuple[Any, ...], list[str], str]] = {
    "empty": ((), ["float32"], "formula_malformed"),
    "not nodes": ((1,), ["float32"], "formula_malformed"),
    "operand later": ((X, FormulaNode("neg", (1,))), ["float32"], "formula_malformed"),
    "operand negative": ((X, FormulaNode("neg", (-1,))), ["float32"], "formula_malformed"),
    "operand bool": ((X, X, FormulaNode("neg", (True,))), ["float32"], "formula_malformed"),
    "unknown function": ((X, FormulaNode("__import__", (0,))), ["float32"], "formula_malformed"),
    "too many operands": ((X, FormulaNode("neg", (0, 0))), ["float32"], "formula_malformed"),
    "input has operands": (
        (X, FormulaNode("input", (0,), 1)),
        ["float32"] * 2,
        "formula_malformed",
    ),
    "input unknown": ((FormulaNode("input", (), 1),), ["float32"], "formula_malformed"),
    "input negative": ((FormulaNode("input", (), -1),), ["float32"], "formula_malformed"),
    "input twice": ((X, X, FormulaNode("add", (0, 1))), ["float32"], "formula_malformed"),
    "input unused": ((X,), ["float32", "float32"], "formula_malformed"),
    "node unused": (
        (X, FormulaNode("sin", (0,)), FormulaNode("neg", (0,))),
        ["float32"],
        "formula_malformed",
    ),
    "value on a call": ((X, FormulaNode("neg", (0,), 3)), ["float32"], "formula_malformed"),
    "dtype on a call": (
        (X, FormulaNode("neg", (0,), 0, "int32")),
        ["float32"],
        "formula_malformed",
    ),
    "const dtype": (
        (X, FormulaNode("const", (), 0, "f2"), FormulaNode("add", (0, 1))),
        ["float32"],
        "formula_malformed",
    ),
    "const too wide": (
        (X, FormulaNode("const", (), 2**32, "float32"), FormulaNode("add", (0, 1))),
        ["float32"],
        "formula_malformed",
    ),
    "const bool 2": (
        (X, FormulaNode("const", (), 2, "bool"), FormulaNode("xor", (0, 1))),
        ["bool"],
        "formula_malformed",
    ),
    "cast to itself": ((X, FormulaNode("cast", (0,), 0, "int32")), ["int32"], "formula_malformed"),
    "cast of two": (
        (X, FormulaNode("cast", (0, 0), 0, "int32")),
        ["float32"],
        "formula_malformed",
    ),
    "mixed dtypes": (call_formula("add").nodes, ["float32", "int32"], "dtype_unsupported"),
    "too many nodes": (
        (X, *(FormulaNode("neg", (i,)) for i in range(MAX_FORMULA_NODES))),
        ["float32"],
        "over_limit",
    ),
    "too many inputs": ((X,), ["float32"] * (MAX_FORMULA_INPUTS + 1), "over_limit"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_trees_are_refused(name: str) -> None:
    nodes, inputs, code = BROKEN[name]
    with pytest.raises(GraphError) as raised:
        check_formula(Formula(nodes), inputs)
    assert raised.value.code == code


def test_the_limits_themselves_are_allowed() -> None:
    nodes = (X, *(FormulaNode("neg", (i,)) for i in range(MAX_FORMULA_NODES - 1)))
    assert len(check_formula(Formula(nodes), ["float32"])) == MAX_FORMULA_NODES
