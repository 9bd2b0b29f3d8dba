"""The operator `formula`: an elementwise expression of the researcher's own, as a checked tree.

Owns: its declaration. The tree's rules are in `catalog/formula_check.py`, its functions in
`catalog/scalars.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import sum_to
from gpugoblin.catalog.formula import MAX_FORMULA_INPUTS, Formula
from gpugoblin.catalog.formula_build import FormulaBuilder, call_formula, const_value
from gpugoblin.catalog.formula_check import check_formula
from gpugoblin.catalog.formula_eval import evaluate_formula, formula_errors
from gpugoblin.catalog.formula_grad import derivatives
from gpugoblin.catalog.rules import moved, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.scalars import SCALARS
from gpugoblin.catalog.spec import (
    FLOATS,
    Array,
    Attribute,
    Attributes,
    Builder,
    Cost,
    Operator,
    Split,
    TensorSpec,
    Tolerance,
)

__all__ = ["FORMULA", "OPERATORS"]

_SCRATCH_ELEMENTS: Final = 1 << 16
"""Elements of one cache block: an engine keeps a block for each node that lives at once."""


def _tree(attributes: Attributes) -> Formula:
    tree = attributes["tree"]
    if not isinstance(tree, Formula):
        raise TypeError(f"the attribute tree must be a Formula, got {type(tree).__name__}")
    return tree


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    dtypes = check_formula(_tree(attributes), [spec.dtype for spec in inputs])
    return (TensorSpec(dtypes[-1], _shape(inputs)),)


def _shape(inputs: Sequence[TensorSpec]) -> tuple[int, ...]:
    rank = max(spec.rank for spec in inputs)
    shape = [1] * rank
    for spec in inputs:
        for axis, extent in enumerate(spec.shape, rank - spec.rank):
            if extent != 1 and shape[axis] not in (1, extent):
                raise shapes_error("formula", inputs, "they do not broadcast")
            shape[axis] = extent if extent != 1 else shape[axis]
    return tuple(shape)


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    nodes = _tree(attributes).nodes
    weight = sum(
        SCALARS[node.function].flops if node.function in SCALARS else node.function == "cast"
        for node in nodes
    )
    count = outputs[0].count
    scratch = len(nodes) * min(count, _SCRATCH_ELEMENTS) * 8
    return moved(inputs, outputs, weight * count, scratch)


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    return (evaluate_formula(_tree(attributes), inputs),)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    shape = _shape(inputs)
    return tuple(
        Split(
            f"i{axis}",
            "parallel",
            tuple(_own_axis(spec, axis - len(shape), extent) for spec in inputs),
            axis,
        )
        for axis, extent in enumerate(shape)
    )


def _own_axis(spec: TensorSpec, from_end: int, extent: int) -> int | None:
    axis = spec.rank + from_end
    return axis if axis >= 0 and spec.shape[axis] == extent else None


def _absolute(inputs: Sequence[Array], attributes: Attributes) -> Array | float:
    error = formula_errors(_tree(attributes), inputs, [None] * len(inputs))
    return 0.0 if error is None else error


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    return (formula_errors(_tree(attributes), inputs, errors),)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    (seed,) = seeds
    if seed is None:
        return (None,) * len(inputs)
    return _derivatives(builder, _tree(attributes), inputs, seed)


def _derivatives(
    builder: Builder, tree: Formula, inputs: Sequence[int], seed: int
) -> tuple[int | None, ...]:
    """One formula an input, summed over what it was broadcast along; function by function where
    such a formula would be over the limits."""
    found = derivatives(tree, [builder.spec(value).dtype for value in inputs])
    if not all(one is None or one.fits for one in found):
        return _stepwise(builder, tree, inputs, seed)
    shares: list[int | None] = []
    for value, one in zip(inputs, found, strict=True):
        if one is None:
            shares.append(None)
            continue
        known = [*inputs, seed]
        share = seed
        if len(one.tree.nodes) > 1:
            share = builder.add("formula", [known[read] for read in one.reads], tree=one.tree)
        shares.append(sum_to(builder, share, builder.spec(value).shape))
    return tuple(shares)


def _stepwise(
    builder: Builder, tree: Formula, inputs: Sequence[int], seed: int
) -> tuple[int | None, ...]:
    """The reverse sweep over the tree's nodes, each as an application of its own."""
    values: list[int] = []
    for node in tree.nodes:
        operands = [values[operand] for operand in node.operands]
        if node.function == "input":
            values.append(inputs[node.value])
        elif node.function == "const":
            values.append(builder.constant(const_value(node)))
        elif node.function == "cast":
            values.append(builder.add("cast", operands, dtype=node.dtype))
        else:
            values.append(builder.add("formula", operands, tree=call_formula(node.function)))
    seeds: dict[int, int] = {len(values) - 1: seed}
    shares: list[int | None] = [None] * len(inputs)
    for number in range(len(values) - 1, -1, -1):
        node, known = tree.nodes[number], seeds.get(number)
        if known is None or builder.spec(values[number]).dtype not in FLOATS:
            continue
        if node.function == "input":
            shares[node.value] = known
        elif node.function == "cast":
            (operand,) = node.operands
            dtype = builder.spec(values[operand]).dtype
            if dtype in FLOATS:
                back, before = builder.add("cast", [known], dtype=dtype), seeds.get(operand)
                seeds[operand] = back if before is None else _sum(builder, before, back)
        elif node.operands:
            operands = [values[operand] for operand in node.operands]
            step = call_formula(node.function)
            for operand, share in zip(
                node.operands, _derivatives(builder, step, operands, known), strict=True
            ):
                if share is not None:
                    before = seeds.get(operand)
                    seeds[operand] = share if before is None else _sum(builder, before, share)
    return tuple(shares)


def _sum(builder: Builder, left: int, right: int) -> int:
    return builder.add("formula", [left, right], tree=call_formula("add"))


def _gelu() -> Formula:
    build = FormulaBuilder()
    x = build.input(0)
    inner = build.call("erf", build.call("mul", x, build.const("float32", 0.7071067811865476)))
    shifted = build.call("add", inner, build.const("float32", 1.0))
    half = build.call("mul", x, build.const("float32", 0.5))
    return build.build(build.call("mul", half, shifted))


def _choice() -> Formula:
    build = FormulaBuilder()
    x, y = build.input(0), build.input(1)
    picked = build.call("where", build.call("gt", x, y), x, build.call("neg", y))
    return build.build(build.cast(picked, "int32"))


FORMULA: Final = Operator(
    name="formula",
    version=1,
    arity=(1, MAX_FORMULA_INPUTS),
    attributes=(Attribute("tree", "formula"),),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(absolute=_absolute, propagate=_propagate),
    samples=(
        sample("add_broadcast", normal(3, 1, 4), normal(5, 1), tree=call_formula("add")),
        sample("empty", normal(0, 3), normal(1, 3), tree=call_formula("mul")),
        sample("size_1", normal(1, 1), tree=_gelu()),
        sample("scalar", normal(), tree=_gelu()),
        sample("strided", strided(normal(4, 5)), tree=_gelu()),
        sample("special", special(3, 5), special(3, 5), tree=_choice()),
        sample("special_divide", special(4, 4), special(4, 4), tree=call_formula("div")),
        sample("wrap", ints(5, low=2**31 - 9, high=2**31 - 1), ints(5), tree=call_formula("mul")),
        sample("logic", truth(2, 8), truth(8), tree=call_formula("xor")),
        sample(
            "integers",
            ints(7, dtype="int64", low=-(2**62), high=2**62),
            ints(7, dtype="int64", low=-2, high=2),
            tree=call_formula("floordiv"),
        ),
    ),
    summary="An elementwise expression over 1 to 32 inputs, which broadcast as in NumPy; the "
    "dtype of the result follows from the tree.",
    grad=_grad,
)

OPERATORS: Final = (FORMULA,)
