"""custom_gradient and no_gradient: values as they are, with a derivative that the program gives.

Owns: their declarations. A straight-through estimator, a gradient reversal or a clipped gradient is
no derivative of its values, so no rule can find it: the program brings it along. Both decompose
into nothing, so they cost nothing where no gradient is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpugoblin.catalog.bodies import body_attribute, invalid, replay, require_specs
from gpugoblin.catalog.body_samples import body, one_formula
from gpugoblin.catalog.building import filled
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.ops.branching import whole_axes
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.rules import int_attribute, require_dtype
from gpugoblin.catalog.samples import normal, sample, special, strided
from gpugoblin.catalog.spec import (
    FLOATS,
    Attribute,
    Attributes,
    AttrValue,
    Builder,
    Operator,
    Sample,
    Split,
    TensorSpec,
)
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS", "stopping"]


def stopping(spec: TensorSpec) -> dict[str, AttrValue]:
    """Attributes of a `custom_gradient` through which nothing goes back, of one value: it is a
    result by no operand."""
    return {"backward": Graph((spec, spec), (), (), (0,)), "operands": 0, "results": 1}


def _require(inputs: Sequence[TensorSpec], given: Attributes) -> None:
    results, operands = int_attribute(given, "results"), int_attribute(given, "operands")
    name = "custom_gradient"
    if not 1 <= results <= len(inputs):
        raise invalid(name, "results", results, f"1 to {len(inputs)} is wanted")
    if not 0 <= operands <= len(inputs) - results:
        raise invalid(name, "operands", operands, f"0 to {len(inputs) - results} is wanted")
    backward = body_attribute(given, "backward")
    floats = inputs[: results + operands]
    for spec in floats:
        require_dtype(name, spec, FLOATS)
    require_specs(name, "backward", backward.inputs, [*inputs, *inputs[:results]])
    if operands:
        require_specs(name, "backward", backward.output_specs(), floats[results:])


def _results(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
    return tuple(inputs[: int_attribute(given, "results")])


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The program's own. What made the values in the first place gets nothing."""
    results, operands = int_attribute(attributes, "results"), int_attribute(attributes, "operands")
    found: list[int | None] = [None] * len(inputs)
    if not operands:
        return tuple(found)
    sown = [
        filled(builder, builder.spec(output)) if seed is None else seed
        for output, seed in zip(outputs, seeds, strict=True)
    ]
    backward = body_attribute(attributes, "backward")
    shares = replay(backward, builder, [*outputs, *inputs[results:], *sown])
    found[results : results + operands] = shares
    return tuple(found)


def _refuse(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    reason = "the program gives it one of its own, which a graph cannot say"
    raise GraphError("not_differentiable", operator="no_gradient@1", reason=reason)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    """A body has fixed shapes."""
    return whole_axes(inputs, inputs[0])


def _float(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def _straight(*shape: int) -> dict[str, object]:
    """y, x, seed -> seed."""
    spec = _float(*shape)
    return {"backward": body((spec,) * 3, (), (2,)), "operands": 1, "results": 1}


def _scaled(*shape: int) -> dict[str, object]:
    """y, x, kept, seed -> seed kept: a derivative by a value that the program kept."""
    spec = _float(*shape)
    backward = one_formula((spec,) * 4, "mul", (2, 3))
    return {"backward": backward, "operands": 1, "results": 1}


def _two(*shape: int) -> dict[str, object]:
    """y, z, x, seed of y, seed of z -> their sum."""
    spec = _float(*shape)
    backward = one_formula((spec,) * 5, "add", (3, 4))
    return {"backward": backward, "operands": 1, "results": 2}


def _samples(name: str) -> tuple[Sample, ...]:
    if name == "no_gradient":
        return (
            sample("matrix", normal(3, 4)),
            sample("scalar", normal()),
            sample("empty", normal(0, 2)),
            sample("size_1", normal(1)),
            sample("strided", strided(normal(3, 4))),
            sample("special", special(7)),
        )
    return (
        sample("straight", normal(3, 4), normal(3, 4), **_straight(3, 4)),
        sample("scaled", normal(5), normal(5), normal(5), **_scaled(5)),
        sample("two", normal(3), normal(3), normal(3), **_two(3)),
        sample("empty", normal(0, 2), normal(0, 2), **_straight(0, 2)),
        sample("size_1", normal(1), normal(1), **_straight(1)),
        sample("strided", strided(normal(3, 4)), strided(normal(3, 4)), **_straight(3, 4)),
        sample("special", special(7), special(7), **_straight(7)),
    )


def _declared(operator: Operator) -> Operator:
    return replace(operator, splits=_splits)


OPERATORS: Final = (
    _declared(
        composite(
            "custom_gradient",
            (1, 64),
            (
                Attribute("backward", "graph"),
                Attribute("operands", "int"),
                Attribute("results", "int"),
            ),
            _require,
            _results,
            _samples("custom_gradient"),
            "The first `results` inputs, floats, as they are; their derivative is what `backward` "
            "says. The next `operands` inputs are what the derivative is by; the rest is what it "
            "needs beside. `backward` takes the outputs, operands, the rest, and a seed for each "
            "output, and gives a share for each operand. Nothing goes back through the first "
            "inputs themselves.",
            grad=_grad,
        )
    ),
    _declared(
        composite(
            "no_gradient",
            (1, 1),
            (),
            lambda inputs, given: require_dtype("no_gradient", inputs[0], FLOATS),
            lambda builder, inputs, given: (inputs[0],),
            _samples("no_gradient"),
            "The input as it is. Asking for a derivative by it is refused: the program has one of "
            "its own that a graph cannot say.",
            grad=_refuse,
        )
    ),
)
