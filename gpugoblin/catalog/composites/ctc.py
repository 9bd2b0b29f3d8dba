"""ctc: connectionist temporal classification. Owns: its declaration.

The forward recursion of A. Graves, S. Fernandez, F. Gomez and J. Schmidhuber, *Connectionist
temporal classification* (ICML 2006), section 4.1, in logarithms, one step after the other; its
derivative is that of these steps. The logarithm of nothing is a large finite number here, as
infinities would make NaN of the derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.along import take_along
from gpugoblin.catalog.bodies import program_of
from gpugoblin.catalog.building import expression, filled, number, reshaped, spread
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.moving import invalid
from gpugoblin.catalog.rules import int_attribute, require_dtype, shapes_error
from gpugoblin.catalog.samples import Make, ints, normal, sample, special, strided
from gpugoblin.catalog.spec import FLOATS, Array, Attribute, Attributes, Builder, TensorSpec

__all__ = ["MOST_STEPS", "OPERATORS"]

MOST_STEPS: Final = 1 << 16
"""What each step is given is kept for the derivative."""

WRITTEN_OUT: Final = 256
"""Sequences of at most so many steps are written out, seven applications a step and more backwards:
that runs on every engine. Longer ones are a `scan`, which engines of cards lack."""

_NEVER: Final = -1e30
_IMPOSSIBLE: Final = 1e29


def _require(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    logs, targets, lengths, counts = inputs
    require_dtype("ctc", logs, FLOATS)
    for spec in inputs[1:]:
        require_dtype("ctc (targets and lengths)", spec, ("int32", "int64"))
    if logs.rank != 3 or targets.rank != 2:
        raise shapes_error("ctc", inputs, "[steps, examples, classes] and [examples, labels]")
    steps, examples, classes = logs.shape
    if targets.shape[0] != examples or any(spec.shape != (examples,) for spec in (lengths, counts)):
        raise shapes_error("ctc", inputs, f"targets and lengths of {examples} examples are wanted")
    if steps > MOST_STEPS:
        raise shapes_error("ctc", inputs, f"at most {MOST_STEPS} steps are possible")
    blank = int_attribute(attributes, "blank")
    if not 0 <= blank < classes:
        raise invalid("ctc", "blank", blank, f"a class from 0 to {classes - 1} is wanted")


def _wide(builder: Builder, value: int) -> int:
    if builder.spec(value).dtype == "int64":
        return value
    return builder.add("cast", [value], dtype="int64")


def _states(builder: Builder, targets: int, counts: int, blank: int) -> int:
    """The labels with a blank before, between and after: [examples, 2 labels + 1].

    What stands behind an example's own labels is blank, so that it need not be a label.
    """
    examples, labels = builder.spec(targets).shape
    places = builder.add("iota", [], count=labels)

    def known(build: FormulaBuilder, label: int, place: int, count: int) -> int:
        own = build.call("lt", place, count)
        return build.call("where", own, label, build.const("int64", blank))

    column = reshaped(builder, counts, (examples, 1))
    own = expression(builder, [targets, places, column], known)
    blanks = filled(builder, TensorSpec("int64", (examples, labels, 1)), blank)
    pairs = builder.add("concat", [reshaped(builder, own, (examples, labels, 1)), blanks], axis=2)
    first = filled(builder, TensorSpec("int64", (examples, 1)), blank)
    rest = reshaped(builder, pairs, (examples, 2 * labels))
    return builder.add("concat", [first, rest], axis=1)


def _shifted(builder: Builder, value: int, count: int) -> int:
    """The states `count` before each, of rows that begin with two more."""
    rows, extent = builder.spec(value).shape
    return builder.add(
        "slice", [value], start=(0, 2 - count), stop=(rows, extent - count), step=(1, 1)
    )


def _preceded(builder: Builder, value: int, first: int) -> int:
    """Two more elements before each row."""
    return builder.add("pad", [value, first], low=(0, 2), high=(0, 0), between=(0, 0))


def _skips(builder: Builder, states: int, blank: int) -> int:
    """Where the blank before a label may be left out: the label before that is another."""
    before = _preceded(builder, states, number(builder, blank, "int64"))

    def write(build: FormulaBuilder, label: int, earlier: int) -> int:
        other = build.call("ne", label, earlier)
        return build.call("and", other, build.call("ne", label, build.const("int64", blank)))

    return expression(builder, [states, _shifted(builder, before, 2)], write)


def _ctc(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    logs, targets, lengths, counts = inputs[0], *(_wide(builder, value) for value in inputs[1:])
    steps, examples, _ = builder.spec(logs).shape
    dtype = builder.spec(logs).dtype
    count = 2 * builder.spec(targets).shape[1] + 1
    start = filled(builder, TensorSpec(dtype, (examples, 1)))
    rest = filled(builder, TensorSpec(dtype, (examples, count - 1)), _NEVER)
    reached = builder.add("concat", [start, rest], axis=1) if count > 1 else start
    if steps:
        states = _states(builder, targets, counts, int_attribute(attributes, "blank"))
        reached = _walk(builder, logs, states, lengths, reached, attributes)
    return (_loss(builder, reached, counts, dtype),)


def _walk(
    builder: Builder, logs: int, states: int, lengths: int, reached: int, attributes: Attributes
) -> int:
    """The logarithms of the probabilities of all states after the last step."""
    steps, examples, _ = builder.spec(logs).shape
    count = builder.spec(states).shape[1]
    skips = _skips(builder, states, int_attribute(attributes, "blank"))
    wanted = reshaped(builder, states, (1, examples, count))
    wanted = spread(builder, wanted, (steps, examples, count))
    emitted = take_along(builder, logs, wanted, 2)
    column = reshaped(builder, lengths, (examples, 1))
    if steps > WRITTEN_OUT:
        operands = [reached, emitted, builder.add("iota", [], count=steps), skips, column]
        specs = [builder.spec(value) for value in operands]
        parts = [TensorSpec(one.dtype, one.shape[1:]) for one in specs[1:3]]
        body = program_of(
            [specs[0], *parts, *specs[3:]],
            lambda inner, values: (_stepped(inner, values, values[2]),),
        )
        return builder.add("scan", operands, body=body, carries=1, length=steps, slices=2)
    for step in range(steps):
        now = builder.add(
            "slice", [emitted], start=(step, 0, 0), stop=(step + 1, examples, count), step=(1, 1, 1)
        )
        now = reshaped(builder, now, (examples, count))
        reached = _stepped(builder, [reached, now, step, skips, column])
    return reached


def _stepped(builder: Builder, given: Sequence[int], place: int | None = None) -> int:
    """The recursion: a state is reached from itself, the one before, or the label before.

    Args:
        given: what was reached, what the step emits, its number, where a blank may be left out, and
            the lengths.
        place: the value that is the step's number, where that is not one of the program.
    """
    reached, emitted, step, skips, column = given
    dtype = builder.spec(reached).dtype
    rows = _preceded(builder, reached, number(builder, _NEVER, dtype))
    before = [_shifted(builder, rows, back) for back in (1, 2)]

    def write(
        build: FormulaBuilder,
        own: int,
        first: int,
        second: int,
        skip: int,
        emitted: int,
        length: int,
        *counted: int,
    ) -> int:
        second = build.call("where", skip, second, build.const(dtype, _NEVER))
        total = _logs_sum(build, (own, first, second))
        now = counted[0] if counted else build.const("int64", step)
        going = build.call("gt", length, now)
        # What a step surely does not emit has the logarithm -inf: three such states make NaN.
        emitted = build.call("max", emitted, build.const(dtype, _NEVER))
        return build.call("where", going, build.call("add", total, emitted), own)

    operands = [reached, *before, skips, emitted, column]
    return expression(builder, operands if place is None else [*operands, place], write)


def _logs_sum(build: FormulaBuilder, terms: Sequence[int]) -> int:
    """The logarithm of the sum of exponentials."""
    most = terms[0]
    for term in terms[1:]:
        most = build.call("max", most, term)
    powers = [build.call("exp", build.call("sub", term, most)) for term in terms]
    total = powers[0]
    for power in powers[1:]:
        total = build.call("add", total, power)
    return build.call("add", most, build.call("log", total))


def _loss(builder: Builder, reached: int, counts: int, dtype: str) -> int:
    """From the last two states; infinite where the labels do not fit the steps."""
    examples = builder.spec(reached).shape[0]

    def last(build: FormulaBuilder, count: int) -> int:
        return build.call("mul", count, build.const("int64", 2))

    def before(build: FormulaBuilder, count: int) -> int:
        place = build.call("sub", last(build, count), build.const("int64", 1))
        return build.call("max", place, build.const("int64", 0))

    def write(build: FormulaBuilder, blank: int, label: int, count: int) -> int:
        some = build.call("gt", count, build.const("int64", 0))
        label = build.call("where", some, label, build.const(dtype, _NEVER))
        loss = build.call("neg", _logs_sum(build, (blank, label)))
        never = build.call("le", build.const(dtype, _IMPOSSIBLE), loss)
        return build.call("where", never, build.const(dtype, math.inf), loss)

    column = reshaped(builder, counts, (examples, 1))
    ends = [
        reshaped(
            builder,
            take_along(builder, reached, expression(builder, [column], place), 1),
            (examples,),
        )
        for place in (last, before)
    ]
    return expression(builder, [*ends, counts], write)


def _lengths(*values: int) -> Make:
    def make(generator: object) -> Array:
        import numpy as np

        return np.array(values, np.int32)

    return make


OPERATORS: Final = (
    composite(
        "ctc",
        (4, 4),
        (Attribute("blank", "int", required=False, default=0),),
        _require,
        _ctc,
        (
            sample(
                "two", normal(5, 2, 4), ints(2, 2, low=1, high=3), _lengths(5, 4), _lengths(2, 1)
            ),
            sample(
                "blank_last",
                *(normal(4, 1, 3), ints(1, 3, dtype="int64", low=0, high=1)),
                *(_lengths(4), _lengths(2)),
                blank=2,
            ),
            sample("no_labels", normal(3, 1, 2), ints(1, 0), _lengths(2), _lengths(0)),
            sample("no_steps", normal(0, 2, 3), ints(2, 0), _lengths(0, 0), _lengths(0, 0)),
            sample("empty", normal(3, 0, 2), ints(0, 2), _lengths(), _lengths()),
            sample("size_1", normal(1, 1, 1), ints(1, 1, low=0, high=0), _lengths(1), _lengths(0)),
            sample(
                "strided",
                strided(normal(3, 1, 3)),
                ints(1, 1, low=1, high=2),
                _lengths(3),
                _lengths(1),
            ),
            sample(
                "special",
                special(3, 2, 3),
                ints(2, 1, low=1, high=2),
                _lengths(3, 2),
                _lengths(1, 1),
            ),
        ),
        "The negative logarithm of the probability of each example's labels, over all ways to "
        "stretch them to its steps with blanks between. Inputs: logarithms of probabilities "
        "[steps, examples, classes], labels [examples, labels], and for each example the number of "
        "its steps and of its labels. Infinite where the labels do not fit.",
    ),
)
