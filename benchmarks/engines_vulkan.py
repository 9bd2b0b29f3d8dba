"""A card through Vulkan beside the field's best on the same card, in one run.

    python -m benchmarks.engines_vulkan [--json FILE] [--quick]

Products: float32 operands and float32 sums, TF32 off in the peer (torch, that is cuBLAS, when it is
there and sees the card). In the classes that round to 16 bits both sides have operands that lie in
the format, and the bound is what the card's matrix units reach without memory. Chains that are
bound by memory: bytes read and written once, beside a copy by the same peer, or by the driver where
it is not there. Times: the mean of queued replays after a third of a second that is not counted;
tensors stay on the card. Every product is checked on sampled rows against float64.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

from app.engine.backends.vulkan.compiling import compile_card, keeps_small_numbers
from app.engine.backends.vulkan.machine import Machine
from app.engine.backends.vulkan.memory import Block
from app.engine.backends.vulkan.recording import Commands
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
from benchmarks.matrix_peak import matrix_peak
from benchmarks.record import Row, machine, not_run, row
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.classes import in_class

PRODUCT_BAR = 0.85
SHORT_BAR = 0.4
"""With VK_KHR_cooperative_matrix alone."""
CHAIN_BAR = 0.75


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


def short_products(card: Machine, sizes: list[int], torch: Any) -> list[Row]:
    """Operands of 16 bits, sums of float32."""
    found = []
    for form in ("float16", "bfloat16"):
        peak = matrix_peak(card, form)
        if peak is None:
            found.append(not_run(f"{form} products", "TFLOP/s", "none", "no matrix units here"))
            continue
        found.append(
            row(f"{form} products without memory", peak / 1e12, "TFLOP/s", note="the bound")
        )
        cases = [(size, form) for size in sizes] + [(sizes[-1], "float32")]
        for size, stored in cases:
            graph = in_class(product_graph(size, stored), form)
            program = compile_card(graph, card, form)
            error = checked(program, size, stored, form)
            flops = 2.0 * size**3 / timed(program)
            program.release()
            peer = None if torch is None else 2.0 * size**3 / _torch_s(torch, form, size) / 1e12
            rounded = ", rounded on the card" if stored == "float32" else ""
            found.append(
                row(
                    f"{form} product {size}{rounded}",
                    flops / 1e12,
                    "TFLOP/s",
                    ratio_bar=SHORT_BAR if size == 8192 and not rounded else None,
                    peer="torch.mm" if peer else "",
                    peer_value=peer,
                    note=f"{flops / peak:.2f} of the bound; largest error {error:.2e} of the sum"
                    " of absolute products",
                )
            )
    return found


def _torch_s(torch: Any, form: str, size: int) -> float:
    kind = {"float16": torch.float16, "bfloat16": torch.bfloat16}[form]
    a, b = (torch.randn(size, size, device="cuda").to(kind) for _ in range(2))
    return peer_s(torch, partial(torch.mm, a, b))


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


def host_cost(card: Machine) -> list[Row]:
    """A replay of one tiny dispatch: what the host spends, and the round trip."""
    builder = GraphBuilder()
    x = builder.input(TensorSpec("float32", (4,)))
    graph = builder.build([builder.add("formula", [x], tree=call_formula("neg"))])
    program = compile_card(graph, card)
    program.replay_s(10)
    queued_s = min(program.queue_s(50) for _ in range(20))
    flow_s = program.replay_s(1000)
    began_s = time.perf_counter()
    for _ in range(200):
        program.replay_s(1)
    trip_s = (time.perf_counter() - began_s) / 200
    program.release()
    return [
        row(
            "replay of one segment, queued",
            queued_s * 1e6,
            "us",
            bar=5,
            better="lower",
            note="of the host; the least of 20 means of 50",
        ),
        row("replay of one segment in a row of many", flow_s * 1e6, "us", better="lower"),
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
    rows += short_products(card, sizes, torch)
    if torch is None:
        rows.append(not_run("the peer of the products", "TFLOP/s", "none", "torch sees no card"))
    shape = (512, 512) if given.quick else (16384, 8192)
    compiler = partial(compile_card, machine=card)
    rows += chain_rows(compiler, shape, torch, partial(copy_rate, card), CHAIN_BAR)
    if keeps_small_numbers(card):
        exact = partial(compile_card, machine=card, numeric_class="exact")
        rows.append(exact_row(compiler, exact, 128 if given.quick else 4096))
    rows += host_cost(card)
    about = {**machine(), "card": card.device.card.name, "driver": card.device.card.driver}
    card.close()
    show("engines_vulkan", rows, about, given.json)


if __name__ == "__main__":
    main()
