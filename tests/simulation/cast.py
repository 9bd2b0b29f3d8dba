"""The cast of the simulation: plans in layers, devices of every character, what they can do.

Owns: data. What they do is in `world.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import msgspec

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.dtypes import COMMON, Dtypes
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spec import (
    ArrayRegion,
    OutputPlace,
    PlannedTask,
    Region,
    TaskOutputRef,
)
from gpugoblin.wire.messages.job import PlanReply
from gpugoblin.wire.messages.task import Capabilities
from server_stub.node.state.words import Party

__all__ = [
    "CAPABILITIES",
    "CATALOG",
    "ENGINE",
    "FLOAT32",
    "PLAN",
    "WITH_FLOAT64",
    "Device",
    "Shape",
    "digest_of",
    "party",
]

CATALOG = "c" * 64
SPEC = TensorSpec("float32", (2,))
FLOAT32 = Dtypes.of(("float32",), ("float32",), ("float32",)).mask()
ENGINE = FLOAT32 | Dtypes(classes=frozenset({"float32", "exact"})).mask()
"""What the lab's own engine has."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A plan in layers: every task of a later layer reads `fan` outputs of the layer before."""

    width: int
    layers: int = 1
    verify: str = "recompute"
    fan: int = 1
    dtypes: int = FLOAT32

    @property
    def graph(self) -> str:
        """The hash of the graph of every task."""
        return digest_of(f"{self.verify} {self.dtypes}")

    @property
    def count(self) -> int:
        return self.width * self.layers

    def sources(self, index: int) -> tuple[int, ...]:
        layer, place = divmod(index, self.width)
        if layer == 0:
            return ()
        first = (layer - 1) * self.width
        return tuple(sorted({first + (place + step) % self.width for step in range(self.fan)}))

    def read(self, index: int) -> tuple[str, ...]:
        """The texts of the boxes that a task reads."""
        return (f"r({index * 2},)",)

    def consumers(self, index: int) -> int:
        return sum(index in self.sources(other) for other in range(self.count))

    def task(self, index: int) -> PlannedTask:
        sources = self.sources(index)
        box = Region((index * 2,), (index * 2 + 2,))
        inputs: tuple[ArrayRegion | TaskOutputRef, ...] = (
            ArrayRegion(0, box),
            *(TaskOutputRef(source, 0) for source in sources),
        )
        last = index >= self.width * (self.layers - 1)
        graph = Graph((SPEC,) * len(inputs), (), (), (0,))
        return PlannedTask(
            index=index, graph=graph, inputs=inputs,
            outputs=(OutputPlace(0 if last else None, box),),
            verify=self.verify,  # type: ignore[arg-type]
            verify_flops=10, flops=1000, bytes_moved=100, memory_bound_bytes=1000,
            affinity=index % 3, depends_on=sources,
        )  # fmt: skip


PLAN = PlanReply(
    kind="sim", tasks=0, tile=(), flops=0, verify_flops=0, bytes_in=0, bytes_out=0,
    memory_bound_bytes=0, node_memory_bytes=0, estimate_s=0.0, alone_s=0.0, gain=1.0,
    executor="grid",
)  # fmt: skip


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True)
class Device:
    """A contributor's card. `lies`, `vanishes`, `delays`, `abandons` are probabilities."""

    party: Party
    lies: float = 0.0
    vanishes: float = 0.0
    abandons: float = 0.0
    slow_s: float = 5.0
    lie: str = "lie"
    known: bool = False
    gone: bool = False
    held: set[str] = field(default_factory=set)
    capabilities: Capabilities = field(default_factory=lambda: CAPABILITIES)


CAPABILITIES = Capabilities(
    catalog_hash=CATALOG, operators=dict.fromkeys(sorted(COMMON), 1), classes=("float32", "exact"),
    memory_bytes=1 << 30, max_slot_bytes=1 << 28, max_outputs=8, flops_per_s=1e12,
    bytes_per_s=1e9, sandbox_level="full", engine_build="b1", driver="cpu",
    kernel_set="1" * 64, dtypes=("float32",), arithmetic=("float32",), convolutions=("float32",),
)  # fmt: skip

WITH_FLOAT64 = msgspec.structs.replace(
    CAPABILITIES, dtypes=("float32", "float64"), arithmetic=("float32", "float64")
)


def party(number: int, *, owner: int | None = None, age_days: int = 30) -> Party:
    """Device `number` of an owner (its own unless said), each owner in a network of its own."""
    who = number if owner is None else owner
    return Party(
        device=f"{number:064x}.0", owner=f"owner_{'abcdefghijklmnopqrstuvwxyz'[who]}",
        bucket=f"{who:016x}", owner_age_days=age_days, grant=f"grant_{'abcdefghijklmnop'[number]}",
        card=0, grant_exp_s=1e12, max_leases=4,
    )  # fmt: skip
