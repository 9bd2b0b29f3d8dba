"""Convolutions and their derivatives. Owns: those ATen operators.

A transposed convolution is a convolution of the data with zeros between neighbors, under the
mirrored kernel with its inputs and outputs changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog import registry

__all__: list[str] = []


def _each(given: Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(given) if len(given) == rank else (given[0],) * rank


def _attributes(
    extents: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> dict[str, Any]:
    rank = len(extents)
    stride, padding, dilation, extra = (
        _each(given or (0,), rank) for given in (stride, padding, dilation, output_padding)
    )
    if not transposed:
        plain = {"stride": stride, "dilation": dilation, "low": padding, "high": padding}
        return {**plain, "between": (0,) * rank, "groups": groups}
    reach = [d * (n - 1) for d, n in zip(dilation, extents, strict=True)]
    low = tuple(r - p for r, p in zip(reach, padding, strict=True))
    return {
        "stride": (1,) * rank,
        "dilation": dilation,
        "low": low,
        "high": tuple(n + e for n, e in zip(low, extra, strict=True)),
        "between": tuple(s - 1 for s in stride),
        "groups": groups,
    }


def _turned(c: Context, weight: Value, groups: int) -> Value:
    """[in, out / groups, *extents] of a transposed convolution, as a kernel of a plain one."""
    inputs, outputs, *extents = c.shape(weight)
    space = range(len(extents))
    grouped = c.reshape(weight, (groups, inputs // groups, outputs, *extents))
    moved = c.permute(grouped, (0, 2, 1, *(3 + axis for axis in space)))
    kernel = c.reshape(moved, (groups * outputs, inputs // groups, *extents))
    return c.op("flip", [kernel], axes=tuple(2 + axis for axis in space))


@aten("convolution", "_convolution")
def convolution(
    c: Context,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Value:
    extents = c.shape(weight)[2:]
    given = _attributes(extents, stride, padding, dilation, transposed, output_padding, groups)
    single = len(c.shape(x)) == len(extents) + 1
    data = c.reshape(x, (1, *c.shape(x))) if single else x
    kernel = _turned(c, weight, groups) if transposed else weight
    found = c.op("conv", [data, kernel], **given)
    if bias is not None:
        line = c.reshape(bias, (c.shape(bias)[0], *(1,) * len(extents)))
        found = c.call("add", found, line)
    return c.reshape(found, c.shape(found)[1:]) if single else found


@aten("convolution_backward")
def convolution_backward(
    c: Context,
    seed: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    extents = c.shape(weight)[2:]
    given = _attributes(extents, stride, padding, dilation, transposed, output_padding, groups)
    kernel = _turned(c, weight, groups) if transposed else weight
    rule = registry.get("conv").grad
    if rule is None:
        raise LookupError("conv declares no derivative")
    output = c.op("conv", [x, kernel], **given)
    found = rule(c.builder, [x.number, kernel.number], [output.number], [seed.number], given)
    data, share = (None if one is None else Value(one) for one in found)
    if transposed and share is not None:
        share = _turned_back(c, share, c.shape(weight), groups)
    axes = (0, *range(2, len(extents) + 2))
    bias = c.reduce("sum", seed, axes) if output_mask[2] else None
    return data, share, bias


def _turned_back(c: Context, kernel: Value, shape: Sequence[int], groups: int) -> Value:
    inputs, outputs, *extents = shape
    space = range(len(extents))
    mirrored = c.op("flip", [kernel], axes=tuple(2 + axis for axis in space))
    grouped = c.reshape(mirrored, (groups, outputs, inputs // groups, *extents))
    moved = c.permute(grouped, (0, 2, 1, *(3 + axis for axis in space)))
    return c.reshape(moved, shape)
