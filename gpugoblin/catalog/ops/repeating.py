"""The operator `while_loop`: a program that runs again as long as another says so. Owns: its
declaration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpugoblin.catalog.bodies import (
    MOST_STEPS,
    body_attribute,
    body_builder,
    body_cost,
    invalid,
    replay,
    require_specs,
    traced,
)
from gpugoblin.catalog.body_samples import apply_formula, body
from gpugoblin.catalog.ops.branching import narrowed, whole_axes
from gpugoblin.catalog.ops.looping import require_count, scan_gradient
from gpugoblin.catalog.program import Graph
from gpugoblin.catalog.rules import int_attribute
from gpugoblin.catalog.samples import ints, normal, sample, special, strided
from gpugoblin.catalog.spec import (
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
from gpugoblin.errors import GraphError

__all__ = ["MOST_STEPS_BACK", "OPERATORS", "WHILE_LOOP"]

MOST_STEPS_BACK: Final = 1 << 16
"""Most steps of a loop that has a gradient, as what each step was given is kept."""


def _parts(attributes: Attributes) -> tuple[Graph, Graph, int, int]:
    """Body, test, number of carried values, most steps."""
    return (
        body_attribute(attributes, "body"),
        body_attribute(attributes, "test"),
        int_attribute(attributes, "carries"),
        int_attribute(attributes, "limit"),
    )


def _infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    inner, test, carries, limit = _parts(attributes)
    require_count("while_loop", "limit", limit, MOST_STEPS)
    if not 1 <= carries <= len(inputs):
        raise invalid("while_loop", "carries", carries, f"1 to {len(inputs)} is wanted")
    require_specs("while_loop", "body", inner.inputs, inputs)
    require_specs("while_loop", "body", inner.output_specs(), inputs[:carries])
    require_specs("while_loop", "test", test.inputs, inputs)
    require_specs("while_loop", "test", test.output_specs(), [TensorSpec("bool", ())])
    return (*inputs[:carries], TensorSpec("int64", ()), TensorSpec("bool", ()))


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    """As if it made all steps that it may."""
    inner, test, _, limit = _parts(attributes)
    costs = [body_cost(inner), body_cost(test)]
    kept = 2 * sum(spec.nbytes + 64 for spec in inner.output_specs())
    return Cost(
        limit * sum(cost.flops for cost in costs),
        limit * sum(cost.bytes_read for cost in costs),
        limit * sum(cost.bytes_written for cost in costs) + 9,
        kept + sum(cost.scratch_bytes for cost in costs),
    )


def _errors(
    inputs: Sequence[Array], errors: Sequence[Array | None], attributes: Attributes
) -> list[Array | None] | None:
    """The errors of the carried values; None where a test is open."""
    inner, test, carries, limit = _parts(attributes)
    step, question = traced(inner), traced(test)
    values, loose, rest = list(inputs[:carries]), list(errors[:carries]), inputs[carries:]
    for count in range(limit + 1):
        known = question.evaluate([*values, *rest])
        (of,) = question.errors(known, [*loose, *errors[carries:]])
        if of is not None and np.any(of > 0):
            return None
        if count == limit or not known[question.outputs[0]]:
            break
        known = step.evaluate([*values, *rest])
        loose = list(step.errors(known, [*loose, *errors[carries:]]))
        values = [known[value] for value in step.outputs]
    return loose


def _reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    inner, test, carries, limit = _parts(attributes)
    step, question = traced(inner), traced(test)
    values, rest = list(inputs[:carries]), inputs[carries:]
    count, ended = 0, False
    while True:
        ended = not question.evaluate([*values, *rest])[question.outputs[0]]
        if ended or count == limit:
            break
        known = step.evaluate([*values, *rest])
        values = [known[value] for value in step.outputs]
        count += 1
    specs = [*inner.output_specs(), TensorSpec("int64", ()), TensorSpec("bool", ())]
    return narrowed([*values, np.array(count, np.int64), np.array(ended)], specs, inputs)


def _splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return whole_axes(inputs, inputs[0])


def _propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Step by step; anything where a test is open."""
    loose = _errors(inputs, errors, attributes)
    if loose is None:
        return tuple(np.full(output.shape, np.inf) for output in outputs)
    return (*loose, None, None)


def _grad(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """That of a scan of `limit` steps, each of which runs the body only while the test says so, and
    passes on what it was given after that. The choice is a `cond`, not a `where`: a body run at the
    point where the loop ended may have no derivative there, as 0 / 0 in Newton's method."""
    inner, test, carries, limit = _parts(attributes)
    if limit > MOST_STEPS_BACK:
        raise GraphError(
            "not_differentiable",
            operator="while_loop@1",
            reason=f"it may make {limit} steps, and a gradient keeps what each was given: at most "
            f"{MOST_STEPS_BACK}; write it as a scan over a number of steps that is enough, which "
            "keeps its values once the test fails",
        )
    bodies = body_builder(builder)
    passed = bodies.body(inner.inputs, lambda step, values: values[:carries])

    def write(step: Builder, values: Sequence[int]) -> Sequence[int]:
        (more,) = replay(test, step, values)
        return step.add_many("cond", [more, *values], if_false=passed, if_true=inner)

    given: Attributes = {
        "body": bodies.body(inner.inputs, write),
        "carries": carries,
        "length": limit,
        "reverse": False,
        "slices": 0,
    }
    return scan_gradient(builder, inputs, outputs[:carries], seeds[:carries], given)


def _halving(*shape: int) -> dict[str, Graph]:
    """x, y, n: halves x and counts n down while n is above 0."""
    spec, count = TensorSpec("float32", shape), TensorSpec("int32", ())
    one, none = np.array(1, np.int32), np.array(0, np.int32)
    step = body(
        (spec, count, spec),
        (apply_formula("mul", (0, 2), spec), apply_formula("sub", (1, 3), count)),
        (4, 5),
        (one,),
    )
    more = body(
        (spec, count, spec), (apply_formula("gt", (1, 3), TensorSpec("bool", ())),), (4,), (none,)
    )
    return {"body": step, "test": more}


WHILE_LOOP: Final = Operator(
    name="while_loop",
    version=1,
    arity=(1, 64),
    attributes=(
        Attribute("body", "graph"),
        Attribute("carries", "int"),
        Attribute("limit", "int"),
        Attribute("test", "graph"),
    ),
    infer=_infer,
    cost=_cost,
    reference=_reference,
    splits=_splits,
    tolerance=Tolerance(propagate=_propagate),
    samples=(
        sample(
            "counted", normal(3), ints(low=2, high=5), normal(3), carries=2, limit=9, **_halving(3)
        ),
        sample(
            "stopped", normal(3), ints(low=5, high=5), normal(3), carries=2, limit=2, **_halving(3)
        ),
        sample(
            "none", normal(3), ints(low=0, high=0), normal(3), carries=2, limit=9, **_halving(3)
        ),
        sample(
            "empty", normal(0), ints(low=2, high=2), normal(0), carries=2, limit=4, **_halving(0)
        ),
        sample(
            "size_1", normal(1), ints(low=1, high=1), normal(1), carries=2, limit=4, **_halving(1)
        ),
        sample(
            "strided",
            *(strided(normal(3)), ints(low=3, high=3), strided(normal(3))),
            carries=2,
            limit=4,
            **_halving(3),
        ),
        sample(
            "special",
            special(6),
            ints(low=3, high=3),
            special(6),
            carries=2,
            limit=4,
            **_halving(6),
        ),
    ),
    summary="A program run while another one, the test, gives true, at most `limit` times. Inputs: "
    "the `carries` carried values, which the body gives anew, and the rest, which both get. "
    "Outputs: the carried values at last, the number of steps (int64), and whether the test ended "
    "it (bool). It has a gradient where `limit` is at most 65536.",
    grad=_grad,
)

OPERATORS: Final = (WHILE_LOOP,)
