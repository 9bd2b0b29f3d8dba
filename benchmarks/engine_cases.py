"""What the engines of cards are measured on, and the peer that runs beside them.

Owns: the graphs, the timing, the check of products, and the rows of memory-bound chains. Must not:
know which interface a card is driven through.

Times: the mean of queued replays after a third of a second that is not counted; tensors stay on the
card. Every product is checked on sampled rows against float64.
"""

from __future__ import annotations

import datetime
import importlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from app.engine.context import Context
from app.engine.pool import Pool
from benchmarks.record import Row, row
from gpugoblin.catalog.casting import cast_array, decoded, encoded
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

__all__ = [
    *("CHAIN_CASES", "Program", "chain_rows", "checked", "composite", "exact_row", "formula_chain"),
    *("normalized", "peer_s", "product_graph", "show", "timed", "torch_or_none"),
]

EXACT_BAR = 0.3
NO_ARENA = np.empty(0, np.uint8)


class Program(Protocol):
    """A compiled graph that can be timed."""

    def replay_s(self, repeats: int) -> float: ...

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], arena: Array, context: Context
    ) -> None: ...

    def release(self) -> None: ...


def repeats_for(once_s: float) -> int:
    return max(3, min(200, int(0.5 / max(once_s, 1e-6))))


def timed(program: Program) -> float:
    """After a third of a second that is not counted: an idle card's clocks are low."""
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 0.3:
        once_s = program.replay_s(3)
    return program.replay_s(repeats_for(once_s))


def product_graph(size: int, stored: str = "float32") -> Graph:
    """[size, size] times [size, size] in float32, of operands that lie in `stored`."""
    builder = GraphBuilder()
    a, b = (builder.input(TensorSpec(stored, (size, size))) for _ in range(2))
    if stored != "float32":
        a, b = (builder.add("cast", [value], dtype="float32") for value in (a, b))
    return builder.build([builder.add("matmul", [a, b])])


def checked(program: Program, size: int, stored: str = "float32", form: str = "") -> float:
    """The largest error of some rows, in units of the sum of absolute products.

    Args:
        stored: how operands lie; numbers of `form`, where that is another.
    """
    random = np.random.default_rng(size)
    form = form or stored
    a, b = (random.standard_normal((size, size), np.float32) for _ in range(2))
    if form != "float32":
        a, b = (decoded(cast_array(each, form)) for each in (a, b))
    given = [a, b] if stored == "float32" else [encoded(each, stored) for each in (a, b)]
    out = np.empty((size, size), np.float32)
    pool = Pool(1)
    program.run(given, [out], NO_ARENA, Context(pool))
    pool.close()
    rows = random.integers(0, size, 8)
    wide = a[rows].astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a[rows]).astype(np.float64) @ np.abs(b).astype(np.float64)
    return float((np.abs(out[rows] - wide) / scale).max())


def torch_or_none() -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return torch


def peer_s(torch: Any, work: Callable[[], object]) -> float:
    work()
    torch.cuda.synchronize()
    began_s = time.perf_counter()
    work()
    torch.cuda.synchronize()
    repeats = repeats_for(time.perf_counter() - began_s)
    began_s = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began_s) / repeats


def formula_chain(shape: tuple[int, ...]) -> Graph:
    """gelu(x * y) + x: two reads, one write."""
    builder = GraphBuilder()
    x, y = (builder.input(TensorSpec("float32", shape)) for _ in range(2))
    scaled = builder.add("formula", [x, y], tree=call_formula("mul"))
    bent = builder.add("gelu", [scaled])
    return builder.build([builder.add("formula", [bent, x], tree=call_formula("add"))])


def composite(name: str, shape: tuple[int, ...], **attributes: object) -> Graph:
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", shape))
    return builder.build([builder.add_many(name, [x], **attributes)[0]])


def normalized(shape: tuple[int, ...]) -> Graph:
    """gelu(layer_norm(x)) + x: one read, one write."""
    builder = GraphBuilder()
    x, scale, shift = (
        builder.input(TensorSpec("float32", one)) for one in (shape, shape[1:], shape[1:])
    )
    small = builder.constant(np.array(1e-5, np.float32))
    normal = builder.add("layer_norm", [x, small, scale, shift], axes=(1,))
    bent = builder.add("gelu", [normal])
    return builder.build([builder.add("formula", [bent, x], tree=call_formula("add"))])


CHAIN_CASES: list[tuple[str, Callable[[tuple[int, int]], Graph], int]] = [
    ("gelu(x * y) + x", formula_chain, 3),
    ("gelu(layer_norm(x)) + x", normalized, 2),
    ("softmax of rows", lambda shape: composite("softmax", shape, axis=1), 2),
    ("transpose", lambda shape: composite("permute", shape, axes=(1, 0)), 2),
    (
        "sum of rows",
        lambda shape: composite("reduce", shape, axes=(1,), function="sum"),
        1,
    ),
    (
        "sum of columns",
        lambda shape: composite("reduce", shape, axes=(0,), function="sum"),
        1,
    ),
]
"""Name, graph, and how often every byte of the shape is read or written."""


def chain_rows(
    compiler: Callable[[Graph], Program],
    shape: tuple[int, int],
    torch: Any,
    own_copy: Callable[[int], float],
    bar: float,
) -> list[Row]:
    """Memory-bound chains beside a copy.

    Args:
        own_copy: bytes a second, read and written, of a copy of so many bytes by the driver.
    """
    size_bytes = 4 * shape[0] * shape[1]
    if torch is None:
        copied = own_copy(size_bytes)
    else:
        x, y = (torch.zeros(shape, device="cuda") for _ in range(2))
        copied = 2 * size_bytes / peer_s(torch, partial(y.copy_, x))
        del x, y
    found = []
    for name, graph, moved in CHAIN_CASES:
        program = compiler(graph(shape))
        rate = moved * size_bytes / timed(program)
        program.release()
        found.append(
            row(
                f"{name}, {shape[0]} x {shape[1]} float32",
                rate / 1e9,
                "GB/s",
                ratio_bar=bar,
                peer="copy on the card" if torch is None else "torch copy",
                peer_value=copied / 1e9,
                note="counting every input and output once",
            )
        )
    return found


def exact_row(
    compiler: Callable[[Graph], Program], exact: Callable[[Graph], Program], size: int
) -> Row:
    """The product of class `exact` beside that of class `float32`."""
    graph = product_graph(size)
    rates = []
    for one in (exact, compiler):
        program = one(graph)
        rates.append(2 * size**3 / timed(program) / 1e12)
        program.release()
    return row(
        f"exact float32 product {size}",
        rates[0],
        "TFLOP/s",
        ratio_bar=EXACT_BAR,
        peer="our float32 product",
        peer_value=rates[1],
        note="the same bits as NumPy: tests/conformance/test_exact.py",
    )


def show(area: str, rows: list[Row], about: dict[str, str], target: Path | None) -> None:
    """Prints the rows and writes them where that is wished."""
    for one in rows:
        beside = "" if one.ratio is None else f"  {one.ratio:6.2f} of {one.peer}"
        shown = "not run" if one.value is None else f"{one.value:10.2f} {one.unit}"
        print(f"{one.what:56} {shown}{beside}  {one.note}", flush=True)
    if target:
        content = {
            "area": area,
            "date": datetime.date.today().isoformat(),
            "machine": about,
            "rows": [asdict(one) for one in rows],
        }
        target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
