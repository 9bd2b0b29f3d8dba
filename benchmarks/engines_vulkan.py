"""A card through Vulkan beside the field's best on the same card, in one run.

    python -m benchmarks.engines_vulkan [--json FILE] [--quick]

Products: float32 operands and float32 sums, TF32 off in the peer (torch, that is cuBLAS, when it is
there and sees the card). Chains that are bound by memory: bytes read and written once, beside a
copy by the same peer, or by the driver where it is not there. Times: the mean of queued replays
after a third of a second that is not counted; tensors stay on the card. Every product is checked on
sampled rows against float64.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from app.engine.backends.vulkan.compiling import compile_card
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.memory import Block
from app.engine.backends.vulkan.program import CardProgram
from app.engine.backends.vulkan.recording import Commands
from app.engine.context import Context
from app.engine.pool import Pool
from benchmarks.record import Row, machine, not_run, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

PRODUCT_BAR = 0.85
CHAIN_BAR = 0.75
NO_ARENA = np.empty(0, np.uint8)


def repeats_for(once_s: float) -> int:
    return max(3, min(200, int(0.5 / max(once_s, 1e-6))))


def timed(program: CardProgram) -> float:
    """After a third of a second that is not counted: an idle card's clocks are low."""
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 0.3:
        once_s = program.replay_s(3)
    return program.replay_s(repeats_for(once_s))


def product_graph(size: int) -> Graph:
    builder = GraphBuilder()
    a, b = (builder.input(TensorSpec("float32", (size, size))) for _ in range(2))
    return builder.build([builder.add("matmul", [a, b])])


def checked(program: CardProgram, size: int) -> float:
    """The largest error of some rows, in units of the sum of absolute products."""
    random = np.random.default_rng(size)
    a, b = (random.standard_normal((size, size), np.float32) for _ in range(2))
    out = np.empty((size, size), np.float32)
    pool = Pool(1)
    program.run([a, b], [out], NO_ARENA, Context(pool))
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


def products(card: Machine, sizes: list[int], torch: Any) -> list[Row]:
    found = []
    for size in sizes:
        program = compile_card(product_graph(size), card)
        error = checked(program, size)
        tera = 2 * size**3 / timed(program) / 1e12
        program.release()
        peer = None
        if torch is not None:
            a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
            peer = 2 * size**3 / peer_s(torch, partial(torch.mm, a, b)) / 1e12
            del a, b
        found.append(
            row(
                f"float32 product {size}",
                tera,
                "TFLOP/s",
                ratio_bar=PRODUCT_BAR if size >= 4096 else None,
                peer="torch.mm, TF32 off" if peer else "",
                peer_value=peer,
                note=f"largest error {error:.2e} of the sum of absolute products",
            )
        )
    return found


def copy_rate(card: Machine, size_bytes: int) -> float:
    """Bytes read and written a second by the driver's own copy."""
    block = Block(card.device, 2 * size_bytes)
    commands = Commands(card.device, card.pipelines)
    commands.copy(block, 0, block, size_bytes, size_bytes)
    commands.barrier()
    commands.end()
    card.finish(card.queue.submit(commands))
    began_s = time.perf_counter()
    number = 0
    for _ in range(20):
        number = card.queue.submit(commands)
    card.finish(number)
    took_s = (time.perf_counter() - began_s) / 20
    commands.close()
    block.close()
    return 2 * size_bytes / took_s


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


def chains(card: Machine, rows: int, columns: int, torch: Any) -> list[Row]:
    shape = (rows, columns)
    copied = copy_rate(card, 4 * rows * columns)
    if torch is not None:
        x, y = (torch.zeros(shape, device="cuda") for _ in range(2))
        copied = 8 * rows * columns / peer_s(torch, partial(y.copy_, x))
        del x, y
    cases = [
        ("gelu(x * y) + x", formula_chain(shape), 3),
        ("gelu(layer_norm(x)) + x", normalized(shape), 2),
        ("softmax of rows", composite("softmax", shape, axis=1), 2),
        ("transpose", composite("permute", shape, axes=(1, 0)), 2),
        ("sum of rows", composite("reduce", shape, axes=(1,), function="sum"), 1),
        ("sum of columns", composite("reduce", shape, axes=(0,), function="sum"), 1),
    ]
    found = []
    for name, graph, moved in cases:
        program = compile_card(graph, card)
        rate = moved * 4 * rows * columns / timed(program)
        program.release()
        found.append(
            row(
                f"{name}, {rows} x {columns} float32",
                rate / 1e9,
                "GB/s",
                ratio_bar=CHAIN_BAR,
                peer="copy on the card" if torch is None else "torch copy",
                peer_value=copied / 1e9,
                note="counting every input and output once",
            )
        )
    return found


def host_cost(card: Machine) -> list[Row]:
    """A replay of one tiny dispatch: what the host spends, and the round trip."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("neg"))])
    program = compile_card(graph, card)
    program.replay_s(10)
    queued_s = program.replay_s(1000)
    began_s = time.perf_counter()
    for _ in range(200):
        program.replay_s(1)
    trip_s = (time.perf_counter() - began_s) / 200
    program.release()
    return [
        row("replay of one segment, queued", queued_s * 1e6, "us", bar=5, better="lower"),
        row("replay of one segment and the wait for it", trip_s * 1e6, "us", better="lower"),
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="small sizes, for software cards")
    given = options.parse_args()
    card = Machine()
    torch = torch_or_none()
    sizes = [256, 512] if given.quick else [1024, 2048, 4096, 8192]
    rows = products(card, sizes, torch)
    if torch is None:
        rows.append(not_run("the peer of the products", "TFLOP/s", "none", "torch sees no card"))
    rows += chains(card, *((512, 512) if given.quick else (16384, 8192)), torch)
    rows += host_cost(card)
    about = {**machine(), "card": card.device.card.name, "driver": card.device.card.driver}
    card.close()
    for one in rows:
        beside = "" if one.ratio is None else f"  {one.ratio:6.2f} of {one.peer}"
        shown = "not run" if one.value is None else f"{one.value:10.2f} {one.unit}"
        print(f"{one.what:48} {shown}{beside}  {one.note}", flush=True)
    if given.json:
        content = {
            "area": "engines_vulkan",
            "date": datetime.date.today().isoformat(),
            "machine": about,
            "rows": [asdict(one) for one in rows],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
