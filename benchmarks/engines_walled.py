"""A card's engine inside its walls beside the same engine without them, in one run.

    python -m benchmarks.engines_walled [--json FILE] [--quick] [--software]

From the launch to `Ready` and to the first result, and to a known answer with and without kernels
that a warm-up kept; the time of a task with and without walls; and from STOP, in the middle of
tasks that hold some GiB, to the card's memory back at what it was before (NVML). Walls at the level
full, as an agent starts them. Medians, unless a row says otherwise.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from app.agent.card_proof import CardProof, WarmUp, warm_graphs
from app.agent.card_record import CardRecords
from app.agent.kernel_store import KernelStore
from app.agent.own_task import go_on
from app.host.card_access import access_to
from app.host.cards import FoundCard, find_cards
from app.host.engine import Engine
from app.host.spec import Died, Done, EngineTask, Failed, HostSpec, Refused
from app.sandbox.bwrap import INSIDE_ROOT
from app.sandbox.driver import card_environment, driver_files
from app.sandbox.plain import installed_runtime
from app.sandbox.runtime import stage
from app.sandbox.spec import Level, Runtime
from benchmarks.engine_cases import product_graph, show
from benchmarks.record import Row, machine, not_run, row
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import encode
from gpugoblin.units import GIB, MIB

READY_BAR_MS = 400.0
INSIDE_BAR = 0.99
STOP_BAR_MS = 500.0
HELD_BYTES = 3 * GIB
"""What one allocation of NVIDIA's driver can hold is just under 4 GiB."""


class Bench:
    """Starts engines on one card, with walls or without."""

    def __init__(self, card: FoundCard, folder: Path, slot_bytes: int) -> None:
        self.card, self.slot_bytes = card, slot_bytes
        self.walled = stage(folder, driver_files(Path(card.driver_file)))

    def start(self, level: Level, warms: frozenset[bytes] = frozenset()) -> Engine:
        memory_bytes = min(self.card.allocation_bytes, 4 * GIB)
        access = access_to(self.card, memory_bytes)
        runtime: Runtime = self.walled if level == "full" else installed_runtime()
        environment = card_environment(INSIDE_ROOT, access.policy, 1)
        if level != "full":
            names = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
            environment |= dict.fromkeys(names, self.card.driver_file)
            environment.pop("__EGL_VENDOR_LIBRARY_FILENAMES", None)
        return Engine.start(HostSpec(
            runtime=runtime, input_bytes=2 * self.slot_bytes + MIB,
            output_bytes=self.slot_bytes + MIB, threads=1, memory_bytes=512 * MIB,
            backend=f"vulkan:{self.card.uuid}", level=level, environment=environment, nice=0,
            card=access, warms=warms,
        ))  # fmt: skip

    def starts_ms(self, level: Level, times: int) -> tuple[float, float]:
        """To `Ready`, and from there to the first result of a small product."""
        ready, first = [], []
        for _ in range(times):
            began_s = time.perf_counter()
            with self.start(level) as engine:
                engine.wait_ready()
                ready.append(time.perf_counter() - began_s)
                began_s = time.perf_counter()
                _task(engine, product_graph(256), 256)
                first.append(time.perf_counter() - began_s)
        return statistics.median(ready) * 1000, statistics.median(first) * 1000

    def warmed_ms(self, folder: Path, times: int) -> tuple[float, float, int]:
        """To the first known answer with what a warm-up compiled, and without, in walls, from the
        launch; and the bytes that were kept."""
        records = CardRecords(folder)
        plan = WarmUp(
            self.card.driver, lambda: self.start("full", warm_graphs()), KernelStore(folder),
            lambda engine: None,
        )  # fmt: skip
        warm = CardProof(self.card.identity, records, warm_up=plan)
        warm.warm(go_on)
        kept = sum(path.stat().st_size for path in folder.glob("kernels-*.bin"))
        taken: list[float] = []
        for proof in (warm, CardProof(self.card.identity, records)):
            found = []
            for _ in range(times):
                began_s = time.perf_counter()
                with self.start("full") as engine:
                    engine.wait_ready()
                    proof(engine, go_on)
                    found.append((time.perf_counter() - began_s) * 1000)
            taken.append(statistics.median(found))
        return taken[0], taken[1], kept

    def task_ms(self, level: Level, size: int, times: int) -> float:
        with self.start(level) as engine:
            engine.wait_ready()
            graph = product_graph(size)
            taken = [_task(engine, graph, size) for _ in range(times + 2)][2:]
        return statistics.median(taken) * 1000

    def stops_ms(self, times: int, nvml: Any) -> list[float]:
        """From STOP to the card's memory as before, in the middle of work."""
        handle = _handle(nvml, self.card)
        taken = []
        for _ in range(times):
            before = nvml.nvmlDeviceGetMemoryInfo(handle).used
            with self.start("full") as engine:
                engine.wait_ready()
                graph = _wide(HELD_BYTES)
                for _ in range(2):
                    _submit(engine, graph, (_WIDE_INNER * _side(HELD_BYTES) * 4,) * 2, 4)
                while nvml.nvmlDeviceGetMemoryInfo(handle).used < before + HELD_BYTES:
                    engine.wait(0.002)
                began_s = time.perf_counter()
                engine.stop()
                while nvml.nvmlDeviceGetMemoryInfo(handle).used > before:
                    engine.wait(0.001)
                taken.append((time.perf_counter() - began_s) * 1000)
                while not any(isinstance(event, Died) for event in engine.wait(5.0)):
                    continue
        return sorted(taken)


_WIDE_INNER = 64


def _side(held_bytes: int) -> int:
    return int((held_bytes / 4) ** 0.5) // 128 * 128


def _wide(held_bytes: int) -> Graph:
    """The largest of a product that is far larger than its operands, 64 times over."""
    side = _side(held_bytes)
    builder = GraphBuilder()
    a = builder.input(TensorSpec("float32", (side, _WIDE_INNER)))
    b = builder.input(TensorSpec("float32", (_WIDE_INNER, side)))
    product = builder.add("matmul", [a, b])
    return builder.build([builder.add("reduce", [product], axes=(0, 1), function="max")])


def _submit(engine: Engine, graph: Graph, inputs: tuple[int, ...], output: int) -> list[Any]:
    slots = [engine.inputs.allocate(size) for size in inputs]
    out = engine.outputs.allocate(output)
    engine.submit(EngineTask(encode(graph), tuple(slots), (out,), 60.0))
    return [slots, out]


def _task(engine: Engine, graph: Graph, size: int) -> float:
    """Seconds from the submission of a product to its end."""
    slots, out = _submit(engine, graph, (4 * size * size,) * 2, 4 * size * size)
    began_s = time.perf_counter()
    while True:
        for event in engine.wait(30.0):
            if isinstance(event, Done):
                taken_s = time.perf_counter() - began_s
                for slot in slots:
                    engine.inputs.free(slot)
                engine.outputs.free(out)
                return taken_s
            if isinstance(event, Failed | Refused | Died):
                raise RuntimeError(event)


def _handle(nvml: Any, card: FoundCard) -> Any:
    return nvml.nvmlDeviceGetHandleByUUID(card.identity.encode())


def measure(card: FoundCard, *, is_quick: bool) -> list[Row]:
    """Rows for one card."""
    size, times = (1024, 2) if is_quick else (8192, 9)
    with tempfile.TemporaryDirectory(prefix="walled-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        bench = Bench(card, folder, 4 * size * size)
        inside_ready, inside_first = bench.starts_ms("full", times)
        outside_ready, outside_first = bench.starts_ms("none", times)
        warm, cold, kept = bench.warmed_ms(folder, times)
        inside, outside = (bench.task_ms(level, size, times) for level in ("full", "none"))
        rows = [
            row("engine of a card ready, in its walls", inside_ready, "ms", better="lower",
                peer="without walls", peer_value=outside_ready,
                note="the driver's own start included"),
            row("engine of a card ready and a first result, in its walls",
                inside_ready + inside_first, "ms", bar=READY_BAR_MS, better="lower",
                peer="without walls", peer_value=outside_ready + outside_first,
                note=f"of it the first product of 256 {inside_first:.0f} ms"),
            row("engine of a card started to its first known answer, kernels kept", warm, "ms",
                bar=READY_BAR_MS, better="lower", peer="without kept kernels", peer_value=cold,
                note=f"in its walls; a warm-up kept {kept} bytes"),
            row(f"tasks of a product {size} a second, in walls", 1000 / inside, "1/s",
                ratio_bar=INSIDE_BAR, peer="without walls", peer_value=1000 / outside,
                note="operands to the card and the result back included"),
        ]  # fmt: skip
        return [*rows, _stop_row(bench, 3 if is_quick else 50)]


def _stop_row(bench: Bench, times: int) -> Row:
    what = f"STOP to the card's memory free, {HELD_BYTES // GIB} GiB held"
    if not bench.card.identity.startswith("GPU-"):
        return not_run(what, "ms", f"<= {STOP_BAR_MS:g} ms", "NVML knows no such card")
    nvml = importlib.import_module("pynvml")
    nvml.nvmlInit()
    taken = bench.stops_ms(times, nvml)
    nvml.nvmlShutdown()
    note = (
        f"99th percentile of {times} in the middle of work, median {statistics.median(taken):.0f};"
        " the bar asks for 100 with 8 GiB, which one allocation of this driver cannot hold"
    )
    return row(what, taken[int(0.99 * times)], "ms", bar=STOP_BAR_MS, better="lower", note=note)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path)
    options.add_argument("--quick", action="store_true", help="small sizes, few repeats")
    options.add_argument("--software", action="store_true", help="a card that is none")
    given = options.parse_args()
    discovery = find_cards()
    for trouble in discovery.troubles:
        print(trouble.what, trouble.next_step)
    wanted = [c for c in discovery.cards if (c.kind == "software") == given.software]
    if not wanted:
        raise SystemExit("no such card")
    about = {**machine(), "card": wanted[0].name, "driver": wanted[0].driver}
    show("engines_walled", measure(wanted[0], is_quick=given.quick), about, given.json)


if __name__ == "__main__":
    main()
