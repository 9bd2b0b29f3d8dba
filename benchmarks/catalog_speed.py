"""The processor's kernels beside PyTorch on one core, float32: what a lent processor is worth.

Owns: the programs and their sizes. Both sides get the same numbers and one thread, and take turns;
the figure is the least processor time of all turns, as other programs only ever add to it. PyTorch
is optional: the rows say so where it is missing. The engine's program is compiled once, as a task's
is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.record import ROOT, Row, not_run, row

ROUNDS = 15
BARS = {
    "product, 2048 x 2048 x 2048": 0.9,
    "two 3x3 convolutions, 8 x 64 x 56 x 56": 0.9,
    "two 3x3 convolutions, 4 x 128 x 28 x 28, strided": 0.9,
    "depthwise 3x3 convolution, 8 x 96 x 56 x 56": 0.0,
    "max and average pool 3x3, 8 x 64 x 56 x 56": 0.0,
    "attention, 8 heads, 1024 x 1024, 64 wide": 0.7,
    "layer norm and GELU, 4096 x 1024": 0.7,
    "bilinear resize, 4 x 32 x 64 x 64 to 128 x 128": 0.0,
}
WHAT = "{} on the processor, one core"


def measure() -> list[Row]:
    """In a process of its own, so that BLAS starts with one thread."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.catalog_speed"],
        check=True, capture_output=True, text=True, cwd=ROOT, env=environment,
    )  # fmt: skip
    rows = []
    for name, (own_s, peer_s, gap) in json.loads(done.stdout.splitlines()[-1]).items():
        what, bar = WHAT.format(name), BARS[name]
        if peer_s is None:
            rows.append(not_run(what, "ms", f"ratio >= {bar:g}", "PyTorch is not installed"))
            continue
        note = f"processor time, best of {ROUNDS} turns; {own_s * 1e3:.1f} against "
        note += f"{peer_s * 1e3:.1f} ms"
        rows.append(
            row(what, 1 / own_s, "runs/s", ratio_bar=bar or None, peer="PyTorch, one thread",
                peer_value=1 / peer_s, note=f"{note}; largest difference {gap:.1e}")
        )  # fmt: skip
    return rows


Program = tuple[Callable[[Any, Sequence[int]], int], Sequence[Any], Callable[..., Any]]
"""What is built of inputs, their numbers, and the same in PyTorch."""


def _programs(torch: Any) -> dict[str, Program]:
    import numpy as np

    random = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return random.standard_normal(shape, dtype=np.float32)

    functional: Any = torch.nn.functional if torch is not None else None

    def conv(stride: int = 1, groups: int = 1) -> dict[str, object]:
        ones = (1, 1)
        return {"stride": (stride,) * 2, "dilation": ones, "low": ones, "high": ones,
                "between": (0, 0), "groups": groups}  # fmt: skip

    def two(stride: int) -> Callable[[Any, Sequence[int]], int]:
        def build(builder: Any, x: Sequence[int]) -> int:
            inner = builder.add("conv", [x[0], x[1]], **conv(stride))
            found: int = builder.add("conv", [inner, x[2]], **conv())
            return found

        return build

    def two_peer(stride: int) -> Callable[..., Any]:
        return lambda x, k, m: functional.conv2d(
            functional.conv2d(x, k, padding=1, stride=stride), m, padding=1
        )

    def pools(builder: Any, x: Sequence[int]) -> int:
        given = {"window": (3, 3), "dilation": (1, 1), "low": (1, 1), "high": (1, 1)}
        largest = builder.add("pool", x, function="max", stride=(1, 1), **given)
        found: int = builder.add("average_pool", [largest], stride=(2, 2), **given)
        return found

    def norm_gelu(builder: Any, x: Sequence[int]) -> int:
        from gpugoblin.catalog.building import number

        operands = [x[0], number(builder, 1e-5), x[1], x[2]]
        found: int = builder.add("gelu", [builder.add("layer_norm", operands, axes=(1,))])
        return found

    def attention(builder: Any, x: Sequence[int]) -> int:
        from gpugoblin.catalog.building import number

        found: int = builder.add("attention", [*x, number(builder, 0.125)])
        return found

    makers: list[Program] = [
        (lambda builder, x: builder.add("matmul", x),
         (normal(2048, 2048), normal(2048, 2048)), lambda a, b: a @ b),
        (two(1), (normal(8, 64, 56, 56), normal(64, 64, 3, 3), normal(64, 64, 3, 3)), two_peer(1)),
        (two(2), (normal(4, 128, 28, 28), normal(256, 128, 3, 3), normal(256, 256, 3, 3)),
         two_peer(2)),
        (lambda builder, x: builder.add("conv", x, **conv(groups=96)),
         (normal(8, 96, 56, 56), normal(96, 1, 3, 3)),
         lambda x, k: functional.conv2d(x, k, padding=1, groups=96)),
        (pools, (normal(8, 64, 56, 56),),
         lambda x: functional.avg_pool2d(functional.max_pool2d(x, 3, 1, 1), 3, 2, 1)),
        (attention, (normal(1, 8, 1024, 64), normal(1, 8, 1024, 64), normal(1, 8, 1024, 64)),
         lambda q, k, v: functional.scaled_dot_product_attention(q, k, v)),
        (norm_gelu, (normal(4096, 1024), normal(1024), normal(1024)),
         lambda x, w, b: functional.gelu(functional.layer_norm(x, (1024,), w, b))),
        (lambda builder, x: builder.add("resize", x, method="linear", alignment="half",
                                        places=(128, 128)),
         (normal(4, 32, 64, 64),),
         lambda x: functional.interpolate(x, (128, 128), mode="bilinear")),
    ]  # fmt: skip
    return dict(zip(BARS, makers, strict=True))


def _one(program: Program, torch: Any) -> tuple[float, float | None, float]:
    """Seconds of the engine and of PyTorch, and how far they differ."""
    import numpy as np

    from app.engine.backends.cpu.backend import CpuBackend
    from app.engine.compile import compile_graph
    from app.engine.context import Context
    from app.engine.pool import Pool
    from gpugoblin.catalog.prove import specs_of
    from gpugoblin.graph.builder import GraphBuilder

    build, arrays, peer = program
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs_of(arrays)]
    compiled = compile_graph(builder.build([build(builder, values)]), CpuBackend())
    outputs = [np.empty(spec.shape, np.float32) for spec in compiled.output_specs]
    arena = np.zeros(compiled.arena_bytes + 64, np.uint8)
    start = -arena.ctypes.data % 64
    arena = arena[start : start + compiled.arena_bytes]
    context = Context(Pool(1))
    tensors = [torch.from_numpy(array) for array in arrays] if torch is not None else []
    own: list[float] = []
    other: list[float] = []
    gap = 0.0
    for _ in range(ROUNDS):
        began = time.thread_time()
        compiled.run(arrays, outputs, arena, context)
        own.append(time.thread_time() - began)
        if torch is not None:
            began = time.thread_time()
            found = peer(*tensors)
            other.append(time.thread_time() - began)
            gap = float(np.abs(found.numpy() - outputs[0]).max())
    return min(own), min(other) if other else None, gap


def main() -> None:
    torch: Any = None
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
    programs = _programs(torch)
    print(json.dumps({name: _one(program, torch) for name, program in programs.items()}))


if __name__ == "__main__":
    main()
