"""A card of NVIDIA through CUDA beside the field's best on the same card, in one run.

    python -m benchmarks.engines_cuda [--json FILE] [--quick]

Products beside cuBLAS called directly on the same memory, and beside torch where it is there; in
the classes whose operands are rounded, the peer's operands lie in the format itself. Chains that
are bound by memory beside a copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from app.engine.backends.card.product import Problem
from app.engine.backends.cuda.compiling import compile_card
from app.engine.backends.cuda.machine import Machine
from app.engine.backends.cuda.product import Gemm
from app.engine.backends.cuda.program import CudaProgram
from app.engine.backends.cuda.recording import Commands
from benchmarks.engine_cases import (
    chain_rows,
    checked,
    exact_row,
    peer_s,
    product_graph,
    show,
    timed,
    torch_or_none,
)
from benchmarks.record import Row, machine, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class

PRODUCT_BAR = 0.97
CHAIN_BAR = 0.85


def direct_s(card: Machine, gemm: Gemm) -> float:
    """Seconds of one call of cuBLAS by itself, on whatever the memory holds."""
    p = gemm.problem
    size_bytes = 4 * (p.m * p.k + p.k * p.n + p.m * p.n)
    block = card.hold(size_bytes)
    card.tenant = None
    right = block + 4 * p.m * p.k
    out = right + 4 * p.k * p.n

    commands = Commands(card)  # captured, so that small ones do not wait for the host
    commands.product(gemm, block, right, out)
    commands.end()

    def work(repeats: int) -> float:
        card.device.synchronize()
        began_s = time.perf_counter()
        for _ in range(repeats):
            commands.launch()
        card.device.synchronize()
        return (time.perf_counter() - began_s) / repeats

    began_s = time.perf_counter()
    while time.perf_counter() - began_s < 0.3:
        once_s = work(3)
    found = work(max(3, min(200, int(0.5 / once_s))))
    commands.close()
    return found


CLASSES: list[tuple[str, str, str]] = [
    ("float32", "float32", "float32"),
    ("tf32", "float32", "tf32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float16", "float32"),
    ("bfloat16, rounded on the card", "float32", "bfloat16"),
    ("float16, rounded on the card", "float32", "float16"),
]
"""Name, the dtype that operands lie in, and the class that the graph is rewritten for."""


def products(card: Machine, sizes: list[int], torch: Any) -> list[Row]:
    found = []
    for name, stored, numeric_class in CLASSES:
        form = stored if stored != "float32" else numeric_class
        for size in sizes:
            program = compile_card(in_class(product_graph(size, stored), numeric_class), card)
            error = checked(program, size) if name == "float32" else 0.0
            flops = 2.0 * size**3
            own = flops / timed(program) / 1e12
            program.release()
            problem = Problem("float32", 1, size, size, size, (False, False))
            direct = flops / direct_s(card, Gemm(problem, form)) / 1e12
            note = f"largest error {error:.2e} of the sum of absolute products" if error else ""
            if torch is not None:
                note += f"; torch.mm {flops / torch_s(torch, form, size) / 1e12:.1f}"
            found.append(
                row(
                    f"{name} product {size}",
                    own,
                    "TFLOP/s",
                    ratio_bar=None if "rounded" in name else PRODUCT_BAR,
                    peer="cuBLAS called directly",
                    peer_value=direct,
                    note=note.removeprefix("; "),
                )
            )
    return found


def torch_s(torch: Any, form: str, size: int) -> float:
    kinds = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    torch.backends.cuda.matmul.allow_tf32 = form == "tf32"
    a, b = (
        torch.randn(size, size, device="cuda").to(kinds.get(form, torch.float32)) for _ in range(2)
    )
    found = peer_s(torch, partial(torch.mm, a, b))
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def copy_rate(card: Machine, size_bytes: int) -> float:
    """Bytes read and written a second by the driver's own copy."""
    block = card.hold(2 * size_bytes)
    library, stream = card.device.library, card.device.stream

    def work(repeats: int) -> float:
        began_s = time.perf_counter()
        for _ in range(repeats):
            library.cuMemcpyDtoDAsync_v2(block + size_bytes, block, size_bytes, stream)
        card.device.synchronize()
        return (time.perf_counter() - began_s) / repeats

    work(5)
    return 2 * size_bytes / work(20)


def host_cost(card: Machine) -> list[Row]:
    """A replay of one tiny dispatch: what the host spends, and the round trip."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("neg"))])
    program: CudaProgram = compile_card(graph, card)
    program.replay_s(10)
    queued_s = program.queue_s(500)
    round_s = timed_round(program.replay_s)
    program.release()
    return [
        row("replay of one segment, queued", queued_s * 1e6, "us", bar=5, better="lower"),
        row("replay of one segment and the wait for it", round_s * 1e6, "us", better="lower"),
    ]


def timed_round(replay_s: Callable[[int], float]) -> float:
    began_s = time.perf_counter()
    for _ in range(200):
        replay_s(1)
    return (time.perf_counter() - began_s) / 200


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="small sizes")
    given = options.parse_args()
    card = Machine()
    torch = torch_or_none()
    rows = host_cost(card)
    shape = (512, 512) if given.quick else (16384, 8192)
    compiler = partial(compile_card, machine=card)
    rows += chain_rows(compiler, shape, torch, partial(copy_rate, card), CHAIN_BAR)
    rows += products(card, [256, 512] if given.quick else [1024, 2048, 4096, 8192, 16384], torch)
    exact = partial(compile_card, machine=card, numeric_class="exact")
    rows.append(exact_row(compiler, exact, 256 if given.quick else 4096))
    version = card.device.version()
    about = {**machine(), "card": card.device.card.name, "driver": f"CUDA {version}"}
    card.close()
    show("engines_cuda", rows, about, given.json)


if __name__ == "__main__":
    main()
