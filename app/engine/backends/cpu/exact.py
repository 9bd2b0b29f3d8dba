"""The kernels of class `exact` on the processor.

Owns: the cut into blocks. What a block computes is the catalog's own definition, which gives each
element of a result by itself, so that a cut along parallel axes cannot change a bit. Integers have
the class with the usual kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from app.engine.backends.cpu import kernels
from app.engine.backends.cpu.blocks import cut, grid
from app.engine.backends.spec import Kernel
from app.engine.context import Context
from gpugoblin.catalog.exact import EXACT_RULES, ordered_products
from gpugoblin.catalog.rules import bool_attribute, int_attribute, ints_attribute
from gpugoblin.catalog.spec import Array, Attributes

__all__ = ["EXACT_KERNELS"]

ROWS: Final = 128
COLUMNS: Final = 512
REDUCE_ELEMENTS: Final = 256 * 1024


def _rule(key: str, reads: Sequence[Array], attributes: Attributes) -> Array:
    with np.errstate(all="ignore"):
        return EXACT_RULES[key](reads, attributes)


def _matmul(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    left, right = reads
    out = writes[0]
    if bool_attribute(attributes, "transpose_a"):
        left = np.swapaxes(left, -1, -2)
    if bool_attribute(attributes, "transpose_b"):
        right = np.swapaxes(right, -1, -2)
    boxes = grid(out.shape, (*(1 for _ in out.shape[:-2]), ROWS, COLUMNS))

    def block(number: int) -> None:
        *batch, rows, columns = boxes[number][:-1]
        first = np.ascontiguousarray(left[(*batch, rows)])
        second = np.ascontiguousarray(right[(*batch, slice(None), columns)])
        with np.errstate(all="ignore"):
            np.copyto(out[boxes[number]], ordered_products(first, second))

    context.blocks(len(boxes) if out.size else 0, block)


def _conv(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """One example of one group a block."""
    data, kernel = reads
    out = writes[0]
    groups = int_attribute(attributes, "groups")
    each, channels = kernel.shape[0] // groups, kernel.shape[1]
    alone = {**attributes, "groups": 1}

    def block(number: int) -> None:
        example, group = divmod(number, groups)
        part = data[example : example + 1, group * channels : (group + 1) * channels]
        weights = kernel[group * each : (group + 1) * each]
        target = out[example : example + 1, group * each : (group + 1) * each]
        np.copyto(target, _rule("conv@1", (part, weights), alone))

    context.blocks(data.shape[0] * groups if out.size else 0, block)


def _reduce(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """Boxes of the axes that stay."""
    source, axes = reads[0], ints_attribute(attributes, "axes")
    kept = [axis for axis in range(source.ndim) if axis not in axes]
    shape = tuple(source.shape[axis] for axis in kept)
    out = writes[0].reshape(shape)
    terms = math.prod(source.shape[axis] for axis in axes)
    boxes = cut(shape, max(1, REDUCE_ELEMENTS // max(1, terms)))
    plain = {**attributes, "keepdims": False}

    def block(number: int) -> None:
        box: list[slice] = [slice(None)] * source.ndim
        for axis, part in zip(kept, boxes[number], strict=False):
            if isinstance(part, slice):
                box[axis] = part
        np.copyto(out[boxes[number]], _rule("reduce@1", (source[tuple(box)],), plain))

    context.blocks(len(boxes) if out.size else 0, block)


def _whole(key: str) -> Kernel:
    """A kernel that computes its result in one block."""

    def kernel(
        reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
    ) -> None:
        context.blocks(1, lambda _: np.copyto(writes[0], _rule(key, reads, attributes)))

    return kernel


def _floating(exact: Kernel, usual: Kernel) -> Kernel:
    """The exact kernel for float32, the usual one for integers and bools."""

    def kernel(
        reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
    ) -> None:
        chosen = exact if writes[0].dtype == np.float32 else usual
        chosen(reads, writes, attributes, context)

    return kernel


def _checked_scatter(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    """The usual kernel, which applies updates in order, then zeros without sign."""
    kernels.KERNELS["scatter@1"](reads, writes, attributes, context)
    if attributes["function"] in ("min", "max"):
        np.add(writes[0], np.float32(0), out=writes[0])


_OWN: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "conv@1": _conv,
        "matmul@1": _matmul,
        "pool@1": _whole("pool@1"),
        "reduce@1": _reduce,
        "scan_reduce@1": _whole("scan_reduce@1"),
        "scatter@1": _checked_scatter,
    }
)

EXACT_KERNELS: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        **kernels.KERNELS,
        **{key: _floating(own, kernels.KERNELS[key]) for key, own in _OWN.items()},
    }
)
"""A kernel for every primitive, as `kernels.KERNELS`."""
