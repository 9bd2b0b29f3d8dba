"""Class `exact` on a card: the operators that add or multiply float32, in the catalog's order.

Owns: their kernels. As `gpugoblin.catalog.exact` defines them: rounded products, blocks of 512
terms one after the other, then the sums of the blocks likewise; maxima and minima that are zero are
+0. What moves elements, and everything on whole numbers, is the same as ever.

A sum begins at -0, to which anything may be added without a change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from app.engine.backends.card import indexing, windowing
from app.engine.backends.card.emission import Emission, Emitter
from app.engine.backends.card.functions import FUNCTIONS, maximum, minimum
from app.engine.backends.card.kernel import Kernel, Variable
from app.engine.backends.card.product import MIDDLE, SMALL, Problem, tiled
from app.engine.backends.card.reduction import reduce as any_reduce
from app.engine.backends.card.sliding import meets
from app.engine.backends.card.stages import Stage, coordinates, each, merged, place_of, row_major
from app.engine.backends.card.values import Value
from gpugoblin.catalog.exact import EXACT_BLOCK
from gpugoblin.catalog.ops.convolution import conv_windows
from gpugoblin.catalog.ops.pooling import pool_windows
from gpugoblin.catalog.rules import bool_attribute, int_attribute, ints_attribute, text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec
from gpugoblin.errors import EngineError

__all__ = ["ORDERED"]

Specs = Sequence[TensorSpec]
MOST_TERMS: Final = EXACT_BLOCK * EXACT_BLOCK
"""Of a product, the sums of whose blocks are one chain."""


def _require_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise EngineError("task_refused", reason=f"class exact adds at most {MOST_TERMS} products")


def _matmul(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    problem = Problem.of(attributes, inputs, outputs[0])
    _require_terms(problem.k)
    if not outputs[0].count:
        return Emission(())
    tiles = MIDDLE if min(problem.m, problem.n) > 32 else SMALL
    return Emission((tiled(problem, tiles, block=EXACT_BLOCK, ordered=problem.k > 0),))


def _nested(kernel: Kernel, total: Variable, part: Variable, number: Value, last: Value) -> None:
    """Adds a block's sum to the whole once it is full."""
    full = ((number + 1) % EXACT_BLOCK).same(0) | last
    with kernel.when(full):
        total.set(total.get() + part.get())
        part.set(-0.0)


def _conv(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    data, weights = inputs
    out = outputs[0]
    groups = int_attribute(attributes, "groups")
    windows = conv_windows(weights.shape, attributes)
    extents, taps = data.shape[2:], weights.shape[2:]
    channels, count = weights.shape[1], math.prod(weights.shape[2:])
    terms = channels * count
    _require_terms(terms)

    def body(kernel: Kernel, index: Value) -> None:
        example, output, *spots = coordinates(index, out.shape)
        group = output // max(1, weights.shape[0] // groups)
        first = -0.0 if terms else 0.0
        total, part = (kernel.variable("float32", first) for _ in range(2))
        value = kernel.variable("float32")
        with kernel.loop(0, terms) as term:
            channel, tap = term // count, term % count
            inside, place = meets(windows, extents, spots, coordinates(tap, taps))
            value.set(0.0)
            with kernel.when(inside):
                base = (example * data.shape[1] + group * channels + channel) * math.prod(extents)
                value.set(kernel.load("float32", 0, base + place))
            factor = kernel.load("float32", 1, output * terms + term)
            part.set(part.get() + value.get() * factor)
            _nested(kernel, total, part, term, term.same(terms - 1))
        kernel.store(2, index, total.get())

    return Emission(tuple(each(out.count, 3, body)))


def _reduce(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    spec, out = inputs[0], outputs[0]
    function, axes = text_attribute(attributes, "function"), ints_attribute(attributes, "axes")
    inner = math.prod(spec.shape[axis] for axis in axes)
    if function in ("max", "min") or not inner:
        found = any_reduce(attributes, inputs, outputs)
        return _and_positive(found, out, 1) if inner else found
    own = row_major(spec.shape)
    kept = [axis for axis in range(spec.rank) if axis not in axes]
    order = [*kept, *axes]
    extents = [spec.shape[axis] for axis in order]
    steps = [own[axis] for axis in order]
    return _levels(function, extents, steps, out.count, inner)


def _levels(function: str, extents: list[int], steps: list[int], rows: int, inner: int) -> Emission:
    """Blocks of 512, again and again until one number is left of each row."""
    stages: list[Stage] = []
    scratch, source = 0, (0, 0)
    count = inner
    shape, (strides,) = merged(extents, [steps])
    while True:
        blocks = -(-count // EXACT_BLOCK)
        target = (1, 0) if blocks == 1 else (2, scratch)
        divisor = inner if function == "mean" and blocks == 1 else 0
        made = _blocks(function, (shape, strides), rows, count, divisor)
        stages += [
            Stage(one.words, one.groups, (source[0], target[0]), 1, (source[1], target[1]))
            for one in made
        ]
        if blocks == 1:
            return Emission(tuple(stages), scratch)
        source, scratch = target, scratch + 4 * rows * blocks
        count = blocks
        shape, strides = (rows * count,), (1,)


def _blocks(
    function: str,
    walk: tuple[Sequence[int], Sequence[int]],
    rows: int,
    count: int,
    divisor: int,
) -> list[Stage]:
    """A thread for each block of each row of `count` terms, which lie along the walk."""
    shape, strides = walk
    blocks = -(-count // EXACT_BLOCK)

    def body(kernel: Kernel, index: Value) -> None:
        start = (index % blocks) * EXACT_BLOCK
        stop = start + EXACT_BLOCK
        stop = kernel.select(stop < count, stop, kernel.number("uint32", count))
        base = (index // blocks) * count

        def term(number: Value) -> Value:
            return kernel.load("float32", 0, place_of(coordinates(base + number, shape), strides))

        total = kernel.variable("float32", term(start))
        with kernel.loop(start + 1, stop) as number:
            now = total.get()
            total.set(now * term(number) if function == "prod" else now + term(number))
        value = total.get()
        if divisor:
            value = FUNCTIONS["div"](value, kernel.number("float32", float(divisor)))
        kernel.store(1, index, value)

    return each(rows * blocks, 2, body)


def _positive(value: Value) -> Value:
    """+0 for zeros of either sign; a sum with +0 is one that drivers leave out."""
    return value.kernel.select(value.same(0.0), 0.0, value)


def _and_positive(found: Emission, out: TensorSpec, number: int) -> Emission:
    """The same with +0 for zeros of either sign."""

    def body(kernel: Kernel, index: Value) -> None:
        kernel.store(0, index, _positive(kernel.load("float32", 0, index)))

    stages = (*found.stages, *each(out.count, 1, body, (number,)))
    return Emission(stages, found.scratch_bytes, found.checks)


def _scan(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    spec = inputs[0]
    axis, function = int_attribute(attributes, "axis"), text_attribute(attributes, "function")
    extent, after = spec.shape[axis], math.prod(spec.shape[axis + 1 :])
    backwards = bool_attribute(attributes, "reverse")
    combine = {
        "sum": lambda left, right: left + right,
        "prod": lambda left, right: left * right,
        "max": maximum,
        "min": minimum,
    }[function]

    def body(kernel: Kernel, row: Value) -> None:
        base = (row // after) * (extent * after) + row % after

        def place(number: Value | int) -> Value:
            known = kernel.lift(number, "uint32")
            turned = kernel.number("uint32", extent - 1) - known if backwards else known
            return base + turned * after

        total = kernel.variable("float32", kernel.load("float32", 0, place(0)))

        def store(number: Value | int) -> None:
            value = total.get()
            value = _positive(value) if function in ("max", "min") else value
            kernel.store(1, place(number), value)

        store(0)
        with kernel.loop(1, extent) as number:
            total.set(combine(total.get(), kernel.load("float32", 0, place(number))))
            store(number)

    return Emission(tuple(each(spec.count // extent if spec.count else 0, 2, body)))


def _pool(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    source, out = inputs[0], outputs[0]
    windows = pool_windows(attributes)
    kept = source.rank - len(windows)
    extents, taps = source.shape[kept:], [window.extent for window in windows]
    largest = text_attribute(attributes, "function") == "max"
    outer, plane = math.prod(out.shape[kept:]), math.prod(extents)

    def body(kernel: Kernel, index: Value) -> None:
        spots = coordinates(index % outer, out.shape[kept:])
        total = kernel.variable("float32", -math.inf if largest else 0.0)
        with kernel.loop(0, math.prod(taps)) as tap:
            inside, place = meets(windows, extents, spots, coordinates(tap, taps))
            with kernel.when(inside):
                value = kernel.load("float32", 0, (index // outer) * plane + place)
                now = total.get()
                total.set(maximum(now, value) if largest else now + value)
        kernel.store(1, index, _positive(total.get()) if largest else total.get())

    return Emission(tuple(each(out.count, 2, body)))


def _scatter(attributes: Attributes, inputs: Specs, outputs: Specs) -> Emission:
    found = indexing.scatter(attributes, inputs, outputs)
    if text_attribute(attributes, "function") not in ("max", "min"):
        return found
    return _and_positive(found, outputs[0], 3)


ORDERED: Final[Mapping[str, Emitter]] = MappingProxyType(
    {
        "conv@1": _conv,
        "fold@1": windowing.fold,
        "matmul@1": _matmul,
        "pool@1": _pool,
        "reduce@1": _reduce,
        "scan_reduce@1": _scan,
        "scatter@1": _scatter,
    }
)
"""In the place of the usual emitters, where results are float32."""
