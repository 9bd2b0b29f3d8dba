"""The shape of a plan: how one graph becomes tasks.

Owns: the data that planners return and the lab node walks. Pure: no I/O, no clock, no store.

A plan never holds a task per element of a long list: `Plan.task(index)` makes one on demand, so a
million tasks cost nothing before they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph

__all__ = [
    "ArrayRegion",
    "Limits",
    "OutputPlace",
    "Plan",
    "PlanSummary",
    "PlannedTask",
    "Region",
    "TaskOutputRef",
    "VerifyMethod",
]

VerifyMethod = Literal["product", "recompute", "equality", "agreement"]


@dataclass(frozen=True, slots=True)
class Region:
    """A box of an array: `start` included, `stop` not. Steps are always 1."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in zip(self.start, self.stop, strict=True))


@dataclass(frozen=True, slots=True)
class ArrayRegion:
    """An input of a task: a box of the job's input array number `array`.

    With `rows`: those rows along axis 0, in that order, each once or more often; the region's
    first axis then runs from 0 to their number, and its other axes are whole.
    """

    array: int
    region: Region
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskOutputRef:
    """An input of a task: the whole output `output` of the earlier task `task`."""

    task: int
    output: int


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """Where an output of a task goes.

    With `array` set: box `region` of the job's output array number `array`. With `array` None: an
    intermediate, kept as a blob until its consumers are used.
    """

    array: int | None
    region: Region


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task before it has blobs.

    Args:
        graph: its inputs match `inputs` in number, dtype and shape, its outputs `outputs`.
        verify: the method under assurance `full` on one machine or with trusted validators.
        verify_flops: what that check costs the lab.
        memory_bound_bytes: inputs, outputs and arena together (`graph.memory`).
        affinity: tasks of one number share a large input and should follow each other.
        depends_on: indices of the tasks that `inputs` name, sorted, all smaller than `index`.
        weight_version: for a task of a training, how many steps its weights have seen.
    """

    index: int
    graph: Graph
    inputs: tuple[ArrayRegion | TaskOutputRef, ...]
    outputs: tuple[OutputPlace, ...]
    verify: VerifyMethod
    verify_flops: int
    flops: int
    bytes_moved: int
    memory_bound_bytes: int
    affinity: int
    depends_on: tuple[int, ...]
    weight_version: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one engine offers and the plan must respect.

    Args:
        memory_bytes: inputs, outputs and arena of one task must fit in this.
        threads: cores of the engine.
        slot_bytes: no single tensor of a task may be larger.
        ordered: sums of floats have one order (class `exact`), so that they may not be cut.
    """

    memory_bytes: int
    threads: int = 1
    slot_bytes: int = 256 * 1024 * 1024
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The figures of a plan, shown to the researcher before anything starts."""

    kind: str
    tasks: int
    flops: int
    verify_flops: int
    bytes_in: int
    bytes_out: int
    memory_bound_bytes: int
    tile: tuple[int, ...]


class Plan(Protocol):
    """A plan. Task indices run from 0 to `count - 1` in an order that respects dependencies."""

    @property
    def count(self) -> int: ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    def task(self, index: int) -> PlannedTask: ...

    def consumers(self, index: int) -> tuple[int, ...]:
        """Indices of the tasks that read an output of task `index`, sorted."""
        ...

    def summary(self) -> PlanSummary: ...
