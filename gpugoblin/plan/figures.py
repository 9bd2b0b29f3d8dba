"""What tasks and stages take, in figures that can be compared.

Owns: the figures of one task and of many, and the cost that planning minimizes. Must not: decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound
from gpugoblin.plan.checks import choose_check
from gpugoblin.plan.flow import Flow, Program
from gpugoblin.plan.spec import Limits, VerifyMethod
from gpugoblin.plan.tilegraph import Tile, shape_of

__all__ = [
    "FLOPS_PER_BYTE",
    "MAX_INPUTS",
    "Figures",
    "Totals",
    "burden",
    "fits",
    "measure",
    "roughly",
    "total",
    "work",
]

MAX_INPUTS: Final = 200
"""Inputs of one task; a message holds 256."""

FLOPS_PER_BYTE: Final = 80
"""What moving a byte is worth: a core makes 4e10 flops while a disk moves 5e8 bytes."""

_RUN_BYTES: Final = 4096
"""A stretch of a file of its own costs as much as so many more bytes: files are read by pages."""

_TASK_FLOPS: Final = 400_000_000
"""What handing out one task is worth: 10 ms of a core."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one task takes. `runs` counts the stretches of memory that its regions are made of."""

    flops: int
    verify: VerifyMethod
    verify_flops: int
    bytes_in: int
    bytes_out: int
    bound_bytes: int
    largest_bytes: int
    inputs: int
    runs: int


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of all tasks of a stage together; bounds and sizes are of the worst task."""

    tasks: int
    flops: int
    verify_flops: int
    bytes_in: int
    bytes_out: int
    bound_bytes: int
    largest_bytes: int
    inputs: int
    runs: int


def measure(
    graph: Graph, arrays: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], shared_by: int
) -> Figures:
    """The figures of a task.

    Args:
        arrays: (shape of the box, shape of the array) of every box of a job's array.
        shared_by: tasks that have the last input in common.
    """
    flops = cost(graph).flops
    verify, verify_flops = choose_check(graph, flops, shared_by)
    return Figures(
        flops=flops,
        verify=verify,
        verify_flops=verify_flops,
        bytes_in=sum(spec.nbytes for spec in graph.inputs),
        bytes_out=sum(spec.nbytes for spec in graph.output_specs()),
        bound_bytes=bound(graph),
        largest_bytes=max(spec.nbytes for spec in graph.specs()),
        inputs=len(graph.inputs),
        runs=sum(_runs(box, whole) for box, whole in arrays),
    )


def roughly(flow: Flow, program: Program, tile: Tile) -> Figures:
    """About the figures of a tile that reads far too many blobs for a task: to compare it with
    smaller ones."""
    flops = bytes_in = 0
    for instance, box, edges in zip(program.instances, tile.boxes, tile.edges, strict=True):
        if box is None:
            continue
        if instance.kind == "node":
            _, node = flow.makers[instance.number]
            inputs = [
                TensorSpec(spec.dtype, shape_of(edge))
                for spec, edge in zip(flow.operands(node), edges, strict=True)
            ]
            outputs = [TensorSpec(spec.dtype, shape_of(box)) for spec in node.outputs]
            operator = registry.get(node.operator, node.version)
            flops += operator.cost(inputs, outputs, node.attrs).flops
        elif instance.kind != "constant":
            spec = flow.specs[instance.number]
            bytes_in += TensorSpec(spec.dtype, shape_of(box)).nbytes
    return Figures(
        flops=flops,
        verify="recompute",
        verify_flops=flops,
        bytes_in=bytes_in,
        bytes_out=0,
        bound_bytes=2 * bytes_in,
        largest_bytes=bytes_in,
        inputs=tile.count,
        runs=tile.count,
    )


def _runs(box: tuple[int, ...], whole: tuple[int, ...]) -> int:
    """Stretches of memory that a box of a C-ordered array is made of."""
    runs, open_ = 1, False
    for part, extent in zip(reversed(box), reversed(whole), strict=True):
        if open_:
            runs *= part
        open_ = open_ or part != extent
    return runs


def total(kinds: Sequence[tuple[int, Figures]]) -> Totals:
    """The sum over tasks, given as (how many are alike, the figures of one)."""
    return Totals(
        tasks=sum(count for count, _ in kinds),
        flops=sum(count * one.flops for count, one in kinds),
        verify_flops=sum(count * one.verify_flops for count, one in kinds),
        bytes_in=sum(count * one.bytes_in for count, one in kinds),
        bytes_out=sum(count * one.bytes_out for count, one in kinds),
        bound_bytes=max(one.bound_bytes for _, one in kinds),
        largest_bytes=max(one.largest_bytes for _, one in kinds),
        inputs=max(one.inputs for _, one in kinds),
        runs=sum(count * one.runs for count, one in kinds),
    )


def fits(totals: Totals, limits: Limits) -> bool:
    """Whether every task fits into an engine and into a message."""
    return (
        totals.bound_bytes <= limits.memory_bytes
        and totals.largest_bytes <= limits.slot_bytes
        and totals.inputs <= MAX_INPUTS
    )


def work(totals: Totals) -> float:
    """What computing, checking and moving costs contributors and lab together, in flops."""
    moved = totals.bytes_in + totals.bytes_out + _RUN_BYTES * totals.runs
    return totals.flops + totals.verify_flops + FLOPS_PER_BYTE * moved


def burden(totals: Totals) -> float:
    """The work, and what handing out the tasks costs."""
    return work(totals) + _TASK_FLOPS * totals.tasks
