"""Writes the tasks with known answers that the agent asks of every engine.

    .venv/bin/python scripts/known_answers.py

The graphs are samples of the catalog and some that reach the other kernels of a card; the answers
are the reference interpreter's, with the catalog's own bound around each. A test makes them again
and compares, so they cannot drift from the catalog.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec
import numpy as np

from app.agent.answers import FILE, Answer, Case
from app.engine.backends.card.table import EMITTERS
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array, Operator, Sample
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class
from gpugoblin.graph.exact import interpret_exact
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import error_bounds
from gpugoblin.graph.serialize import encode

__all__ = ["made", "main"]

SEED: Final = 20261201
FURTHER: Final = (
    ("softmax@1", "large"),
    ("layer_norm@1", ""),
    ("conv@1", "plane"),
    ("reduce@1", "sum_long"),
)
"""Samples beside the first of each operator: kernels that those do not reach."""

STEPS: Final = (37, 41, 53, 59, 29)
FUNCTIONS: Final = ("exp", "log", "tanh", "sin", "sqrt", "erf")

NumericClass = Literal["exact", "float32", "float16", "bfloat16"]
SHORT: Final[tuple[Literal["float16", "bfloat16"], ...]] = ("float16", "bfloat16")
Given = tuple[str, Graph, Sequence[Array], NumericClass]


def made() -> tuple[Case, ...]:
    """All cases; the first is the one that is asked again and again."""
    return tuple(_case(*each) for each in (*_whole(), *_samples()))


def _whole() -> Iterator[Given]:
    yield "product and chain", *_plain_product(17, 24, 19), "float32"
    yield "product of whole tiles", *_product(136, 72, 264), "float32"
    for form in SHORT:
        yield f"{form} product of whole matrices", *_short(_product(48, 32, 48), form), form
        yield f"{form} product with edges", *_short(_product(50, 72, 40), form), form
    yield "exact product", *_product(20, 600, 21), "exact"
    yield "functions", *_functions(), "float32"
    yield "exact functions", *_functions(), "exact"


def _numbers(*shape: int, step: int) -> Array:
    """Between -3 and 3, the same everywhere."""
    count = int(np.prod(shape))
    return ((np.arange(count) * step % 193 - 96) / 32).astype(np.float32).reshape(shape)


def _plain_product(m: int, k: int, n: int) -> tuple[Graph, list[Array]]:
    """As `_product`, of operands that come as they are: few kernels, as it is asked often."""
    inputs = [
        _numbers(*shape, step=step)
        for shape, step in zip(((m, k), (k, n), (n,)), STEPS, strict=False)
    ]
    builder = GraphBuilder()
    a, b, row = map(builder.input, specs_of(inputs))
    return _behind(builder, builder.add("matmul", [a, b]), row), inputs


def _product(m: int, k: int, n: int) -> tuple[Graph, list[Array]]:
    """A product, a chain behind it, and of that what keeps the file small: a sum of each row. So do
    operands that are made of a column and a row each."""
    sides = ((m, 1), (1, k), (k, 1), (1, n), (n,))
    inputs = [_numbers(*shape, step=step) for shape, step in zip(sides, STEPS, strict=True)]
    builder = GraphBuilder()
    a_column, a_row, b_column, b_row, row = map(builder.input, specs_of(inputs))
    tree = FormulaBuilder()
    column, line = tree.input(0), tree.input(1)
    mixed = tree.build(
        tree.call("max", tree.call("mul", column, line), tree.call("sub", line, column))
    )
    a = builder.add("formula", [a_column, a_row], tree=mixed)
    b = builder.add("formula", [b_column, b_row], tree=mixed)
    return _behind(builder, builder.add("matmul", [a, b]), row), inputs


def _short(
    product: tuple[Graph, list[Array]], form: Literal["float16", "bfloat16"]
) -> tuple[Graph, list[Array]]:
    """As a lab rewrites it: what cards have units for."""
    graph, inputs = product
    return in_class(graph, form), inputs


def _behind(builder: GraphBuilder, product: int, row: int) -> Graph:
    tree = FormulaBuilder()
    shifted = tree.call("add", tree.input(0), tree.input(1))
    behind = tree.build(tree.call("max", shifted, tree.input(1)))
    result = builder.add("formula", [product, row], tree=behind)
    return builder.build([builder.add("reduce", [result], function="sum", axes=(1,))])


def _functions() -> tuple[Graph, list[Array]]:
    inputs = [np.abs(_numbers(96, step=37)) + np.float32(1 / 64)]
    builder = GraphBuilder()
    x = builder.input(specs_of(inputs)[0])
    results = [builder.add("formula", [x], tree=call_formula(name)) for name in FUNCTIONS]
    return builder.build(results), inputs


def _samples() -> Iterator[Given]:
    for key in sorted(set(EMITTERS) - {"matmul@1"}):
        yield _sample(OPERATORS[key], OPERATORS[key].samples[0])
    for key, name in FURTHER:
        samples = OPERATORS[key].samples
        yield _sample(OPERATORS[key], next(each for each in samples if name in ("", each.name)))


def _sample(operator: Operator, sample: Sample) -> Given:
    inputs = [np.array(each, order="C") for each in sample.inputs(np.random.default_rng(SEED))]
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(inputs)]
    outputs = builder.add_many(operator.name, values, **sample.attributes)
    return f"{operator.name}, {sample.name}", builder.build(outputs), inputs, "float32"


def _case(name: str, graph: Graph, inputs: Sequence[Array], numeric_class: NumericClass) -> Case:
    if numeric_class == "exact":
        outputs: Sequence[Array] = interpret_exact(graph, inputs)
        bounds: Sequence[Array] = [np.zeros(()) for _ in outputs]
    else:
        outputs, bounds = error_bounds(graph, inputs)
    answers = []
    for output, bound in zip(outputs, bounds, strict=True):
        wide = np.broadcast_to(bound, output.shape).astype(np.float64)
        limits = wide.tobytes() if wide.any() else b""
        answers.append(Answer(str(output.dtype), output.tobytes(), limits))
    return Case(
        name=name,
        numeric_class=numeric_class,
        graph=encode(graph),
        inputs=tuple(array.tobytes() for array in inputs),
        answers=tuple(answers),
    )


def main() -> int:
    """Writes the file."""
    lines = [msgspec.json.encode(case) for case in made()]
    FILE.write_bytes(b"\n".join(lines) + b"\n")
    print(f"{len(lines)} cases, {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
