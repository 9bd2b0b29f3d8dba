"""A graph as text."""

from __future__ import annotations

import numpy as np

from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph, Names, View
from gpugoblin.graph.show import formula_text


def example() -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (2, 3)))
    line = builder.constant(np.arange(5, dtype=np.int64))
    values, _ = builder.add_many("topk", [x], k=2, axis=1)
    build = FormulaBuilder()
    total = build.call("mul", build.call("add", build.input(0), build.const("float32", 1.5)),
                       build.call("tanh", build.input(0)))  # fmt: skip
    made = builder.add("formula", [values], tree=build.build(total))
    return builder.build([made, line])


def test_text() -> None:
    text = str(View(example(), Names(inputs=("x.npy",), lines={4: "run.py:7"})))
    assert text.splitlines() == [
        "%0 = input 0 : float32[2, 3]  # x.npy",
        "%1 = constant [0, 1, 2, 3, ...] : int64[5]",
        "%2, %3 = topk(%0, axis=1, k=2, largest=True) : float32[2, 2], int64[2, 2]",
        "%4 = (%2 + 1.5) * tanh(%2) : float32[2, 2]  # run.py:7",
        "return %4, %1",
    ]


def test_a_long_formula_is_cut() -> None:
    build = FormulaBuilder()
    total = build.input(0)
    for _ in range(80):
        total = build.call("add", build.call("sin", total), build.input(0))
    assert len(formula_text(build.build(total), ["%0"])) < 250
