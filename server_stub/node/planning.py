"""Plans of running jobs: made once, rebuilt from the stored graph and limits after a restart.

Owns: the cache of plans and the encoding of the tasks' graphs. Planning is pure, so the same graph
and limits give the same plan in every life of the node. Must not: touch a database or a file.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gpugoblin.catalog.registry import operator_versions
from gpugoblin.graph.dtypes import needs_of
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.serialize import decode, encode, graph_hash
from gpugoblin.plan.planner import plan as plan_graph
from gpugoblin.plan.spec import Limits, Plan, PlannedTask
from server_stub.node.training.building import read_plan
from server_stub.node.training.rows import TrainingRow

__all__ = ["Batch", "Planner", "operators_of", "read_limits", "write_limits"]

MAX_PLANS: Final = 32
MAX_GRAPHS: Final = 256


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive tasks of a plan, ready to be written into rows.

    Args:
        tasks: each with the hash of its graph and its number of consumers.
        graphs: hash -> (canonical bytes, operator versions, dtypes that are needed) of every graph
            named.
    """

    first: int
    tasks: tuple[tuple[PlannedTask, str, int], ...]
    graphs: dict[str, tuple[bytes, dict[str, int], int]]


def write_limits(limits: Limits) -> str:
    """Limits as they are stored with a job."""
    return msgspec.json.encode(limits).decode()


def read_limits(text: str) -> Limits:
    """Limits of a stored job."""
    return msgspec.json.decode(text, type=Limits)


def operators_of(graph: Graph) -> dict[str, int]:
    """The operators that a graph uses, with their versions."""
    return {node.operator: node.version for node in graph.nodes}


class Planner:
    """Plans by job. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._graphs: OrderedDict[int, tuple[Graph, str, bytes, int]] = OrderedDict()

    def make(self, graph: Graph, limits: Limits, block_axis: int | None) -> Plan:
        """A new plan. Raises PlanError."""
        return plan_graph(graph, limits, block_axis=block_axis)

    def keep(self, job: str, plan: Plan) -> None:
        """Remembers the plan of a job that has just been started."""
        with self._lock:
            self._plans[job] = plan
            while len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)

    def forget(self, job: str) -> None:
        """The job has ended."""
        with self._lock:
            self._plans.pop(job, None)

    def of_job(
        self, job: str, graph: bytes, limits: str, block_axis: int | None,
        training: TrainingRow | None = None,
    ) -> Plan:  # fmt: skip
        """The plan of a running job, rebuilt if it is not in memory."""
        with self._lock:
            known = self._plans.get(job)
        if known is None:
            if training is not None:
                known = read_plan(training.program, training.arrays)
            else:
                known = self.make(decode(graph), read_limits(limits), block_axis)
            self.keep(job, known)
        return known

    def batch(self, plan: Plan, first: int, count: int) -> Batch:
        """Tasks `first ...` of a plan with their graphs encoded, at most `count` of them."""
        made = []
        graphs: dict[str, tuple[bytes, dict[str, int], int]] = {}
        for index in range(first, min(plan.count, first + count)):
            task = plan.task(index)
            name, data, dtypes = self._encoded(task.graph)
            if name not in graphs:
                graphs[name] = (data, operators_of(task.graph), dtypes)
            made.append((task, name, len(plan.consumers(index))))
        return Batch(first, tuple(made), graphs)

    def _encoded(self, graph: Graph) -> tuple[str, bytes, int]:
        """Name, bytes and dtypes. Plans share few graph objects among their tasks: each is encoded
        once."""
        with self._lock:
            known = self._graphs.get(id(graph))
            if known is not None and known[0] is graph:
                return known[1:]
        data = encode(graph)
        name, dtypes = str(graph_hash(graph)), needs_of(graph).mask()
        with self._lock:
            self._graphs[id(graph)] = (graph, name, data, dtypes)
            while len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
        return name, data, dtypes


def total_bytes_moved(plan: Plan) -> int:
    """Inputs and outputs of all tasks together, from a sample of at most 64 of them."""
    if plan.count == 0:
        return 0
    sample: Sequence[int] = range(0, plan.count, max(1, plan.count // 64))
    moved = sum(plan.task(index).bytes_moved for index in sample)
    return moved * plan.count // len(sample)


def catalog_versions() -> dict[str, int]:
    """Every operator of the catalog with its version."""
    return operator_versions()
