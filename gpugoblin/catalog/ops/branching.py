"""The operator `cond`: one of two programs, by a bool. Owns: its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.bodies import (
    body_attribute,
    body_builder,
    body_cost,
    floats,
    require_specs,
    traced,
)
from gpugoblin.catalog.body_samples import body, one_formula
from gpugoblin.catalog.rules import require_dtype, shapes_error
from gpugoblin.catalog.samples import ints, normal, sample, special, strided, truth
from gpugoblin.catalog.spec import (
    DTYPES,
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
from gpugoblin.catalog.widening import is_wide

__all__ = ["COND", "OPERATORS", "narrowed", "whole_axes"]

_BRANCHES: Final = ("if_false", "if_true")


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    require_dtype("cond", inputs[0], ("bool",))
    if inputs[0].rank:
        raise shapes_error("cond", inputs[:1], "the first input must be a scalar")
    no, yes = (body_attribute(attributes, name) for name in _BRANCHES)
    for name, branch in zip(_BRANCHES, (no, yes), strict=True):
        require_specs("cond", name, branch.inputs, inputs[1:])
    require_specs("cond", "if_true", yes.output_specs(), no.output_specs())
    return no.output_specs()


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    """The larger of both."""
    costs = [body_cost(body_attribute(attributes, name)) for name in _BRANCHES]
    return Cost(
        max(cost.flops for cost in costs),
        max(cost.bytes_read for cost in costs) + 1,
        max(cost.bytes_written for cost in costs),
        max(cost.scratch_bytes for cost in costs),
    )


def narrowed(
    values: Sequence[Array], specs: Sequence[TensorSpec], like: Sequence[Array]
) -> tuple[Array, ...]:
    """Results in their dtypes; as they are where the operands stand for float32."""
    wide = any(map(is_wide, like))
    with np.errstate(all="ignore"):
        return tuple(
            np.array(value, value.dtype if wide else DTYPES[spec.dtype], order="C")
            for value, spec in zip(values, specs, strict=True)
        )


def _chosen(inputs: Sequence[Array], attributes: Attributes) -> str:
    return _BRANCHES[bool(inputs[0])]


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    branch = body_attribute(attributes, _chosen(inputs, attributes))
    found = traced(branch)
    values = found.evaluate(inputs[1:])
    return narrowed([values[value] for value in found.outputs], branch.output_specs(), inputs)


def whole_axes(inputs: Sequence[TensorSpec], output: TensorSpec) -> tuple[Split, ...]:
    """Nothing may be cut."""
    count = len(inputs)
    found = [
        Split(
            f"x{place}a{axis}",
            "whole",
            tuple(axis if n == place else None for n in range(count)),
            None,
        )
        for place, spec in enumerate(inputs)
        for axis in range(spec.rank)
    ]
    found.extend(Split(f"o{axis}", "whole", (None,) * count, axis) for axis in range(output.rank))
    return tuple(found)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return whole_axes(inputs, body_attribute(attributes, "if_false").output_specs()[0])


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Those of the chosen program; anything where the choice is open."""
    if errors[0] is not None and np.any(errors[0] > 0):
        return tuple(np.full(output.shape, np.inf) for output in outputs)
    found = traced(body_attribute(attributes, _chosen(inputs, attributes)))
    return found.errors(found.evaluate(inputs[1:]), errors[1:])


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The same choice among the derivatives of both."""
    bodies = body_builder(builder)
    specs = [builder.spec(value) for value in inputs[1:]]
    wrt = floats(specs)
    of = [place for place, seed in enumerate(seeds) if seed is not None]
    found: list[int | None] = [None] * len(inputs)
    if not wrt or not of:
        return tuple(found)
    given = [seed for seed in seeds if seed is not None]
    branches = {
        name: bodies.derivative(body_attribute(attributes, name), wrt, of) for name in _BRANCHES
    }
    results = builder.add_many("cond", [*inputs, *given], **branches)
    for place, result in zip(wrt, results, strict=True):
        found[place + 1] = result
    return tuple(found)


def _pair(spec: TensorSpec, no: str, yes: str) -> dict[str, object]:
    return {
        "if_false": one_formula((spec, spec), no, (0, 1)),
        "if_true": one_formula((spec, spec), yes, (0, 1)),
    }


def _float(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


COND: Final = Operator(
    name="cond",
    version=1,
    arity=(1, 64),
    attributes=(Attribute("if_false", "graph"), Attribute("if_true", "graph")),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample("first", truth(), normal(3, 4), normal(3, 4), **_pair(_float(3, 4), "mul", "add")),
        sample("other", truth(), normal(5), normal(5), **_pair(_float(5), "add", "mul")),
        sample("empty", truth(), normal(0, 2), normal(0, 2), **_pair(_float(0, 2), "mul", "sub")),
        sample("size_1", truth(), normal(1), normal(1), **_pair(_float(1), "mul", "div")),
        sample(
            "strided",
            *(truth(), strided(normal(3, 4)), normal(3, 4)),
            **_pair(_float(3, 4), "sub", "mul"),
        ),
        sample("special", truth(), special(9), normal(9), **_pair(_float(9), "mul", "sub")),
        sample(
            "integers", truth(), ints(4), ints(4), **_pair(TensorSpec("int32", (4,)), "mul", "sub")
        ),
        sample(
            "passed",
            *(truth(), normal(3), normal(3)),
            if_false=body((_float(3), _float(3)), (), (1, 0)),
            if_true=body((_float(3), _float(3)), (), (0, 0)),
        ),
    ),
    summary="What one of two programs gives on the inputs after the first, a bool scalar that "
    "chooses. Both take the same and give the same; only the chosen one runs.",
    grad=_grad,
)

OPERATORS: Final = (COND,)
