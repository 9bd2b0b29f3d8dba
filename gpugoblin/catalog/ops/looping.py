"""The operator `scan`: a program that runs again on what it gave. Owns: its declaration.

The reference carries values in float64 from step to step, so that the bound, which follows every
step, says how far float32 may lie from it.
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
    floats,
    invalid,
    replay,
    require_specs,
    traced,
)
from gpugoblin.catalog.body_samples import apply_formula, body
from gpugoblin.catalog.building import call, filled
from gpugoblin.catalog.ops.branching import narrowed, whole_axes
from gpugoblin.catalog.program import Graph, Node
from gpugoblin.catalog.rules import bool_attribute, int_attribute, shapes_error
from gpugoblin.catalog.samples import normal, sample, special, strided
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

__all__ = ["OPERATORS", "SCAN", "require_count", "scan_gradient"]


def require_count(operator: str, name: str, value: int, most: int) -> int:
    """Requires 0 to `most`."""
    if not 0 <= value <= most:
        raise invalid(operator, name, value, f"0 to {most} is wanted")
    return value


# scan


def _parts(attributes: Attributes) -> tuple[Graph, int, int, int]:
    """Body, number of carried values, number of sliced inputs, steps."""
    return (
        body_attribute(attributes, "body"),
        int_attribute(attributes, "carries"),
        int_attribute(attributes, "slices"),
        int_attribute(attributes, "length"),
    )


def _scan_infer(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[TensorSpec, ...]:
    inner, carries, slices, length = _parts(attributes)
    require_count("scan", "length", length, MOST_STEPS)
    require_count("scan", "carries", carries, len(inputs))
    require_count("scan", "slices", slices, len(inputs) - carries)
    sliced = inputs[carries : carries + slices]
    if any(not spec.rank or spec.shape[0] != length for spec in sliced):
        raise shapes_error("scan", sliced, f"a first axis of {length} steps is wanted")
    steps = [TensorSpec(spec.dtype, spec.shape[1:]) for spec in sliced]
    rest = inputs[carries + slices :]
    require_specs("scan", "body", inner.inputs, [*inputs[:carries], *steps, *rest])
    results = inner.output_specs()
    require_specs("scan", "body", results[:carries], inputs[:carries])
    stacked = [TensorSpec(spec.dtype, (length, *spec.shape)) for spec in results[carries:]]
    return (*results[:carries], *stacked)


def _scan_cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    inner, _, _, length = _parts(attributes)
    one = body_cost(inner)
    # Carried values are there twice: what a step reads, and what it writes.
    scratch = one.scratch_bytes + 2 * sum(spec.nbytes + 64 for spec in inner.output_specs())
    return Cost(one.flops * length, one.bytes_read * length, one.bytes_written * length, scratch)


def _order(attributes: Attributes) -> Sequence[int]:
    length = int_attribute(attributes, "length")
    return range(length)[::-1] if bool_attribute(attributes, "reverse") else range(length)


def _scan_reference(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    inner, carries, slices, length = _parts(attributes)
    found = traced(inner)
    values = list(inputs[:carries])
    sliced, rest = inputs[carries : carries + slices], inputs[carries + slices :]
    specs = inner.output_specs()
    stacked = [_room(spec, length) for spec in specs[carries:]]
    for step in _order(attributes):
        known = found.evaluate([*values, *(array[step, ...] for array in sliced), *rest])
        results = [known[value] for value in found.outputs]
        values = results[:carries]
        for room, result in zip(stacked, results[carries:], strict=True):
            room[step] = result
    wanted = [
        *specs[:carries],
        *(TensorSpec(spec.dtype, (length, *spec.shape)) for spec in specs[carries:]),
    ]
    return narrowed([*values, *stacked], wanted, inputs)


def _room(spec: TensorSpec, length: int) -> Array:
    dtype = np.dtype(np.float64 if spec.dtype == "float32" else spec.dtype)
    return np.zeros((length, *spec.shape), dtype)


def _scan_splits(inputs: Sequence[TensorSpec], attributes: Attributes) -> tuple[Split, ...]:
    return whole_axes(inputs, _scan_infer(inputs, attributes)[0])


def _scan_propagate(
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    outputs: Sequence[Array],
    attributes: Attributes,
) -> tuple[Array | None, ...]:
    """Step by step: the errors of what is carried are those of the next step's operands."""
    inner, carries, slices, length = _parts(attributes)
    found = traced(inner)
    values, loose = list(inputs[:carries]), list(errors[:carries])
    sliced = [
        (array, None if error is None else np.broadcast_to(error, array.shape))
        for array, error in zip(inputs, errors, strict=True)
    ][carries : carries + slices]
    specs = inner.output_specs()
    stacked = [np.zeros((length, *spec.shape)) for spec in specs[carries:]]
    for step in _order(attributes):
        operands = [
            *values,
            *(array[step, ...] for array, _ in sliced),
            *inputs[carries + slices :],
        ]
        known = found.evaluate(operands)
        of = found.errors(
            known,
            [
                *loose,
                *(None if error is None else error[step, ...] for _, error in sliced),
                *errors[carries + slices :],
            ],
        )
        values, loose = [known[value] for value in found.outputs[:carries]], list(of[:carries])
        for room, error in zip(stacked, of[carries:], strict=True):
            room[step] = 0.0 if error is None else error
    return (*loose, *stacked)


def scan_gradient(
    builder: Builder,
    inputs: Sequence[int],
    outputs: Sequence[int],
    seeds: Sequence[int | None],
    attributes: Attributes,
) -> tuple[int | None, ...]:
    """The values carried into each step are found by one more scan and kept; then the steps are
    gone through the other way, each with the derivative of the body."""
    inner, carries, slices, length = _parts(attributes)
    bodies = body_builder(builder)
    specs, results = inner.inputs, inner.output_specs()
    wrt, of = floats(specs), floats(results)
    found: list[int | None] = [None] * len(inputs)
    if not wrt or not of:
        return tuple(found)
    back = bodies.derivative(inner, wrt, of)
    first = [place for place in wrt if place < carries]
    middle = [place for place in wrt if carries <= place < carries + slices]
    last = [place for place in wrt if place >= carries + slices]
    kept = _kept(builder, inner, inputs, attributes)
    late = [place for place in of if place >= carries]
    sums = [*first, *last]

    def write(step: Builder, values: Sequence[int]) -> Sequence[int]:
        sown, before = values[: len(sums)], list(values[len(sums) :])
        seeded = before[carries + slices : carries + slices + len(late)]
        rest = before[carries + slices + len(late) :]
        operands = [*before[: carries + slices], *rest, *sown[: len(first)], *seeded]
        shares = dict(zip(wrt, replay(back, step, operands), strict=True))
        grown = [
            call(step, "add", total, shares[place])
            for total, place in zip(sown[len(first) :], last, strict=True)
        ]
        return [*(shares[place] for place in first), *grown, *(shares[place] for place in middle)]

    start = [seeds[place] if place in first else None for place in sums]
    sown = [
        filled(builder, specs[place]) if seed is None else seed
        for place, seed in zip(sums, start, strict=True)
    ]
    over = [
        filled(builder, builder.spec(outputs[place])) if seed is None else seed
        for place, seed in ((place, seeds[place]) for place in late)
    ]
    sliced = inputs[carries : carries + slices]
    steps = [*specs[: carries + slices], *(results[place] for place in late)]
    reached = builder.add_many(
        "scan",
        [*sown, *kept, *sliced, *over, *inputs[carries + slices :]],
        body=bodies.body(
            [*(specs[place] for place in sums), *steps, *specs[carries + slices :]], write
        ),
        carries=len(sums),
        length=length,
        reverse=not bool_attribute(attributes, "reverse"),
        slices=len(steps),
    )
    for place, result in zip((*sums, *middle), reached, strict=True):
        found[place] = result
    return tuple(found)


def _kept(
    builder: Builder, inner: Graph, inputs: Sequence[int], attributes: Attributes
) -> tuple[int, ...]:
    """What each step was given of the carried values, stacked."""
    carries = int_attribute(attributes, "carries")
    if not carries:
        return ()

    def write(step: Builder, values: Sequence[int]) -> Sequence[int]:
        return [*replay(inner, step, values)[:carries], *values[:carries]]

    saving = body_builder(builder).body(inner.inputs, write)
    return builder.add_many("scan", inputs, **{**attributes, "body": saving})[carries:]


# samples


def _line(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def _running(*shape: int) -> Graph:
    """c, x -> c x, c + x."""
    spec = _line(*shape)
    nodes = (apply_formula("mul", (0, 1), spec), apply_formula("add", (0, 1), spec))
    return body((spec, spec), nodes, (2, 3))


def _recurrent(rows: int, columns: int) -> Graph:
    """h, x, w -> tanh(h w + x), and that again: a recurrent network."""
    plain = (("transpose_a", False), ("transpose_b", False))
    spec, weights = _line(rows, columns), _line(columns, columns)
    nodes = (
        Node("matmul", 1, plain, (0, 2), (spec,)),
        apply_formula("add", (3, 1), spec),
        apply_formula("tanh", (4,), spec),
    )
    return body((spec, spec, weights), nodes, (5, 5))


_SCANNED: Final = {"carries": 1, "slices": 1}

SCAN: Final = Operator(
    name="scan",
    version=1,
    arity=(1, 64),
    attributes=(
        Attribute("body", "graph"),
        Attribute("carries", "int"),
        Attribute("length", "int"),
        Attribute("reverse", "bool", required=False, default=False),
        Attribute("slices", "int", required=False, default=0),
    ),
    infer=_scan_infer,
    cost=_scan_cost,
    reference=_scan_reference,
    splits=_scan_splits,
    tolerance=Tolerance(propagate=_scan_propagate),
    samples=(
        sample("running", normal(3), normal(4, 3), body=_running(3), length=4, **_SCANNED),
        sample(
            "reverse", normal(2), normal(5, 2), body=_running(2), length=5, reverse=True, **_SCANNED
        ),
        sample(
            "recurrent",
            *(normal(2, 3), normal(4, 2, 3), normal(3, 3, scale=0.5)),
            body=_recurrent(2, 3),
            length=4,
            **_SCANNED,
        ),
        sample(
            "repeated",
            normal(3),
            normal(3),
            body=body((_line(3), _line(3)), (apply_formula("mul", (0, 1), _line(3)),), (2,)),
            carries=1,
            length=3,
        ),
        sample(
            "mapped",
            normal(4, 3),
            body=body((_line(3),), (apply_formula("exp", (0,), _line(3)),), (1,)),
            carries=0,
            length=4,
            slices=1,
        ),
        sample("no_steps", normal(3), normal(0, 3), body=_running(3), length=0, **_SCANNED),
        sample("empty", normal(0), normal(2, 0), body=_running(0), length=2, **_SCANNED),
        sample("size_1", normal(1), normal(1, 1), body=_running(1), length=1, **_SCANNED),
        sample(
            "strided",
            *(strided(normal(3)), strided(normal(4, 3))),
            body=_running(3),
            length=4,
            **_SCANNED,
        ),
        sample("special", special(6), special(3, 6), body=_running(6), length=3, **_SCANNED),
    ),
    summary="A program run `length` times, from the first step or with `reverse` from the last. "
    "Inputs: the `carries` carried values at first, `slices` tensors of which each step gets its "
    "part along the first axis, and the rest, which every step gets. The body gives the carried "
    "values for the next step and what is stacked. Outputs: the carried values at last, then the "
    "stacks.",
    grad=scan_gradient,
)

OPERATORS: Final = (SCAN,)
