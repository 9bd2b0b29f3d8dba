"""Work items for the node's workers, made from small arrays on disk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from gpugoblin.blobs.store import BlobStore
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from server_stub.node.arrays import create_result, describe
from server_stub.node.work import (
    ArrayFile,
    BlobInput,
    BlobOutput,
    Box,
    Check,
    Compute,
    Input,
    Output,
    Recompute,
    RegionInput,
    RegionOutput,
)

__all__ = [
    "blob_of",
    "check_item",
    "compute_item",
    "deep_graph",
    "function_graph",
    "load_file",
    "product_graph",
    "recompute_item",
    "region_of",
    "result_of",
]


def product_graph(rows: int, inner: int, columns: int, *, carry: bool = False) -> Graph:
    """`a @ b`, or `a @ b + c`."""
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (rows, inner)))
    b = builder.input(TensorSpec("float32", (inner, columns)))
    c = builder.input(TensorSpec("float32", (rows, columns))) if carry else None
    out = builder.add("matmul", [a, b])
    if c is not None:
        out = builder.add("formula", [out, c], tree=call_formula("add"))
    return builder.build([out])


def function_graph(function: str, *shape: int, dtype: str = "float32") -> Graph:
    """One scalar function over one tensor."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec(dtype, shape))
    return builder.build([builder.add("formula", [x], tree=call_formula(function))])


def deep_graph() -> Graph:
    """tanh(a b) c of 128 rows and columns: its proven bound is far wider than honest results lie
    apart."""
    builder = GraphBuilder()
    a, b, c = (builder.input(TensorSpec("float32", (128, 128))) for _ in range(3))
    inner = builder.add("formula", [builder.add("matmul", [a, b])], tree=call_formula("tanh"))
    return builder.build([builder.add("matmul", [inner, c])])


def region_of(place: Path, name: str, array: Array, pad: int = 0) -> RegionInput:
    """`array` as a box of a larger npy file."""
    whole = np.zeros(tuple(extent + 2 * pad for extent in array.shape), array.dtype)
    whole[tuple(slice(pad, pad + extent) for extent in array.shape)] = array
    path = place / f"{name}.npy"
    np.save(path, whole)
    start = (pad,) * array.ndim
    stop = tuple(pad + extent for extent in array.shape)
    return RegionInput(describe("npy", str(path)), Box(start, stop))


def blob_of(store: BlobStore, array: Array) -> BlobInput:
    """`array` as a blob of the store."""
    data = np.ascontiguousarray(array).tobytes()
    return BlobInput(store.put(data), len(data), str(array.dtype), array.shape)


def result_of(place: Path, name: str, dtype: str, shape: tuple[int, ...]) -> RegionOutput:
    """A fresh result file, and the whole of it as an output."""
    file = create_result("npy", str(place / name), dtype, shape)
    return RegionOutput(file, Box((0,) * len(shape), shape), dtype, shape)


def load_file(file: ArrayFile) -> Array:
    """The content of a result file under whatever name."""
    count = math.prod(file.shape)
    data = np.fromfile(file.path, file.dtype, count, offset=file.offset_bytes)
    return data.reshape(file.shape)


def compute_item(
    name: str, graph: Graph, inputs: tuple[Input, ...], outputs: tuple[Output, ...],
    verify: str = "product",
) -> Compute:  # fmt: skip
    kind = "product" if verify == "product" else "recompute"
    return Compute(
        name,
        encode(graph),
        "float32",
        inputs,
        outputs,
        kind,
        1 << 20,
        1_000_000,  # type: ignore[arg-type]
    )


def recompute_item(
    name: str,
    graph: Graph,
    inputs: tuple[Input, ...],
    committed: tuple[BlobInput, ...],
    outputs: tuple[Output, ...],
    *,
    fold: bool = True,
    repair: bool = True,
) -> Recompute:
    return Recompute(
        name, encode(graph), "float32", inputs, committed, outputs, fold, repair, 1 << 20, 10**6
    )


def check_item(
    name: str, graph: Graph, inputs: tuple[Input, ...], committed: tuple[BlobInput, ...],
    outputs: tuple[Output, ...], *, fold: bool = True,
) -> Check:  # fmt: skip
    return Check(name, encode(graph), "float32", inputs, committed, outputs, fold)


def kept(dtype: str, shape: tuple[int, ...]) -> BlobOutput:
    """An output that stays a blob."""
    return BlobOutput(dtype, shape)
