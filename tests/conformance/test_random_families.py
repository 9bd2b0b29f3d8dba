"""The other families of operators at random shapes: movement, sums, products, places, orders,
normalizations, losses, attention, linear algebra, transforms. As in `test_random_shapes`, fewer
cases of each, as the samples of the catalog have them too."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from tests.conformance.test_random_shapes import normal, require, sliding, small

QUICK = settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
shapes = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)
full = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
Dims = tuple[int, ...]


def whole(seed: int, stop: int, *shape: int) -> Array:
    """Indices below `stop`."""
    return np.random.default_rng(seed).integers(0, stop, shape)


@QUICK
@given(shapes, st.data())
def test_movement_within_a_shape(shape: Dims, data: st.DataObject) -> None:
    values, rank = normal(0, *shape), len(shape)
    require("permute", [values], axes=tuple(data.draw(st.permutations(range(rank)))))
    axes = data.draw(st.sets(st.integers(0, rank - 1), min_size=1))
    require("flip", [values], axes=tuple(sorted(axes)))
    for dtype in ("int32", "bool", "float64", "float16"):
        require("cast", [values], sloped=False, dtype=dtype)
    require("reshape", [values], shape=(*reversed(shape), 1))
    require("broadcast", [values], shape=(data.draw(small), *shape))


@QUICK
@given(full, st.data())
def test_movement_that_cuts_and_joins(shape: Dims, data: st.DataObject) -> None:
    values = normal(0, *shape)
    start = tuple(data.draw(st.integers(0, extent - 1)) for extent in shape)
    stop = tuple(
        data.draw(st.integers(low, extent)) for low, extent in zip(start, shape, strict=True)
    )
    step = tuple(data.draw(st.integers(1, 2)) for _ in shape)
    require("slice", [values], start=start, stop=stop, step=step)
    low, high, between = (
        tuple(data.draw(st.integers(0, 2)) for _ in shape) for _ in range(3)
    )  # fmt: skip
    require("pad", [values, normal(2)], low=low, high=high, between=between)
    part = normal(1, *(extent - low for extent, low in zip(shape, start, strict=True)))
    require("update_slice", [values, part], start=start, step=(1,) * len(shape))
    axis = data.draw(st.integers(0, len(shape) - 1))
    longer = normal(3, *shape[:axis], data.draw(st.integers(0, 3)), *shape[axis + 1 :])
    require("concat", [values, longer, values], axis=axis)


@QUICK
@given(full, st.data(), st.booleans())
def test_sums_along_axes(shape: Dims, data: st.DataObject, keepdims: bool) -> None:
    values, rank = normal(0, *shape), len(shape)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1))))
    for function in ("sum", "max", "min"):
        require("reduce", [values], axes=axes, function=function, keepdims=keepdims)
    require("vector_norm", [values], axes=axes, keepdims=keepdims)
    for name in ("softmax", "log_softmax"):
        require(name, [values], axis=axes[0])
    require("scan_reduce", [values], axis=axes[0], function="sum", reverse=keepdims)
    require("reduce_arg", [values], sloped=False, axis=axes[0], function="argmax")


@QUICK
@given(shapes, st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans())
def test_products(batch: Dims, rows: int, inner: int, left: bool, right: bool) -> None:
    one = (inner, rows) if left else (rows, inner)
    two = (3, inner) if right else (inner, 3)
    operands = [normal(0, *batch[:2], *one), normal(1, *batch[:2], *two)]
    require("matmul", operands, transpose_a=left, transpose_b=right)


@QUICK
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), small, small)
def test_grouped_products(counts: list[int], inner: int, outer: int) -> None:
    rows, groups = sum(counts), np.array(counts)
    data = normal(0, rows, inner)
    require("grouped_matmul", [data, normal(1, len(counts), inner, outer), groups])
    require("grouped_outer", [data, normal(1, rows, outer), groups])


@QUICK
@given(full, st.integers(0, 4), st.data())
def test_places(shape: Dims, count: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    values, extent = normal(0, *shape), shape[axis]
    require("gather", [values, whole(1, extent, count)], axis=axis)
    parts = normal(2, *shape[:axis], count, *shape[axis + 1 :])
    require("scatter", [values, whole(1, extent, count), parts], axis=axis, function="add")
    along = whole(1, extent, *shape[:axis], count, *shape[axis + 1 :])
    require("take_along", [values, along], axis=axis)
    require("compact", [values, whole(3, 2, shape[0]) > 0], limit=shape[0] + count)


@QUICK
@given(full, st.data(), st.booleans())
def test_orders(shape: Dims, data: st.DataObject, largest: bool) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    values = normal(0, *shape)
    require("topk", [values], axis=axis, k=data.draw(st.integers(1, shape[axis])), largest=largest)
    require("sort", [values], axis=axis, descending=largest)
    ranks = np.sort(normal(1, 7))
    require("searchsorted", [ranks, values], sloped=False, right=largest)
    require("histogram", [values, ranks], sloped=False)
    require("nonzero", [values > 0], sloped=False, limit=values.size + 1)


@QUICK
@given(small, small, small, st.integers(2, 4), st.booleans())
def test_normalizations(examples: int, groups: int, inner: int, last: int, scaled: bool) -> None:
    # Of one element the deviation is 0 and its derivative is as large as 1 / epsilon allows.
    shape, epsilon = (examples + 1, groups * inner, last), np.float32(0.1)
    affine = [normal(1, last), normal(2, last)] if scaled else []
    require("layer_norm", [normal(0, *shape), np.array(epsilon), *affine], axes=(2,))
    require("rms_norm", [normal(0, *shape), np.array(epsilon), *affine[:1]], axes=(2,))
    channels = [normal(1, shape[1]), normal(2, shape[1])]
    both = channels if scaled else []
    require("group_norm", [normal(0, *shape), np.array(epsilon), *both], groups=groups)
    spread = np.abs(normal(3, shape[1])) + np.float32(0.5)
    require(
        "batch_norm", [normal(0, *shape), np.array(epsilon), normal(4, shape[1]), spread, *both]
    )


@QUICK
@given(full, st.integers(1, 4))
def test_losses(shape: Dims, classes: int) -> None:
    found, wanted = normal(0, *shape), normal(1, *shape)
    delta = np.array(0.7, np.float32)
    require("mse", [found, wanted])
    require("huber", [found, wanted, delta])
    require("smooth_l1", [found, wanted, delta])
    chance = (1 / (1 + np.exp(-wanted))).astype(np.float32)
    require("binary_cross_entropy", [(0.1 + 0.8 * chance).astype(np.float32), chance])
    require("binary_cross_entropy_logits", [found, chance])
    require("kl_divergence", [found, chance])
    targets = whole(2, classes, *shape)
    require("nll", [normal(3, shape[0], classes, *shape[1:]), targets], axis=1)
    require("cross_entropy", [normal(3, shape[0], classes, *shape[1:]), targets], axis=1)
    for name in ("gelu", "silu"):
        require(name, [found])


@QUICK
@given(st.lists(small, max_size=2).map(tuple), small, small, small, st.integers(1, 5))
def test_attention(batch: Dims, queries: int, width: int, values: int, keys: int) -> None:
    shapes = ((queries, width), (keys, width), (keys, values))
    operands = [normal(n, *batch, *shape) for n, shape in enumerate(shapes)]
    require("attention", [*operands, np.array(0.5, np.float32)])


def steady(seed: int, batch: Dims, size: int) -> Array:
    """Matrices far from singular ones."""
    noise = normal(seed, *batch, size, size) / np.float32(4 * size)
    return np.asarray(noise + np.diag(np.arange(1, size + 1)), np.float32)


@QUICK
@given(st.lists(small, max_size=2).map(tuple), st.integers(1, 5), small, st.booleans())
def test_linear_algebra(batch: Dims, size: int, columns: int, lower: bool) -> None:
    matrix, right = steady(0, batch, size), normal(1, *batch, size, columns)
    require("solve", [matrix, right], transpose=lower)
    require("triangular_solve", [matrix, right], lower=lower)
    for name in ("inverse", "det", "slogdet", "lu", "qr", "svd"):
        require(name, [matrix])
    spread = (matrix + np.swapaxes(matrix, -1, -2)) / np.float32(2)
    require("cholesky", [spread])
    require("eigh", [spread])
    require("matrix_exp", [matrix / np.float32(size)])
    tall = np.concatenate([matrix, normal(2, *batch, 2, size)], axis=-2)
    require("lstsq", [tall, normal(3, *batch, size + 2, columns)])


@QUICK
@given(st.lists(st.integers(1, 6), min_size=1, max_size=2).map(tuple), small, st.booleans())
def test_transforms(space: Dims, examples: int, inverse: bool) -> None:
    axes = tuple(range(1, len(space) + 1))
    key = whole(4, 2**40, 2)
    for function in ("bits", "uniform"):
        require("random", [key], sloped=False, function=function, shape=(examples, *space))
    require("fft", [normal(0, examples, *space, 2)], axes=axes, kind="c2c", inverse=inverse)


@QUICK
@given(sliding(spread=False), small, small)
def test_windows_that_are_laid_back(
    chosen: tuple[Dims, dict[str, object]], channels: int, outputs: int
) -> None:
    space, made = chosen
    window, stride, dilation = (made[key] for key in ("window", "stride", "dilation"))
    assert isinstance(window, tuple)
    none = (0,) * len(space)
    kernel = normal(1, channels, outputs, *window)
    require("conv_transposed", [normal(0, 2, channels, *space), kernel], stride=stride,
            dilation=dilation, low=none, high=none)  # fmt: skip
    # What `window` lays out of data that are longer than any window, `fold` adds up again.
    wide = tuple(extent + 6 for extent in space)
    windows = {"window": window, "stride": stride, "dilation": dilation, "low": none}
    builder = GraphBuilder()
    laid = builder.add("window", [builder.input(TensorSpec("float32", (2, *wide)))], high=none,
                       **windows)  # fmt: skip
    del windows["window"]
    require("fold", [normal(2, *builder.spec(laid).shape)], space=wide, **windows)
