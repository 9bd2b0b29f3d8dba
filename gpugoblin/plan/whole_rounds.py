"""The template of a round of a model that an engine holds: a task for each micro-batch, one step.

Owns: in which order its tasks stand and what each reads. Must not: know what an optimizer is; its
step is a graph that is passed in.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.microbatches import MicroBatch
from gpugoblin.plan.round_items import STEP_AFFINITY, Evaluation, Item, Source

__all__ = ["GROUP", "evaluation_of", "groups_of", "round_of"]

GROUP: Final = 16
"""Micro-batches whose gradients one task adds up; their order is that of the batch."""


def groups_of(micros: int) -> list[range]:
    """The micro-batches that are added up together; none where a step takes all of them itself."""
    if micros <= GROUP:
        return []
    return [range(first, min(micros, first + GROUP)) for first in range(0, micros, GROUP)]


def round_of(
    micro: MicroBatch, sums: dict[int, Graph], step: Graph, carried: int, micros: int
) -> tuple[Item, ...]:
    """The tasks of a round: the micro-batches, their sums, the step.

    Args:
        micro: the task of a micro-batch. sums: adds the outputs of some of them, by number of
            addends. micros: how many there are.
        step: inputs: what is carried, the number of the step (1,), then what the micro-batches (or
            their sums) give, all of the first output, then all of the second. Outputs: what is
            carried, the loss (1,), the norms (1, parameters).
        carried: how many tensors are.
    """
    given = len(micro.graph.outputs)
    items = [Item(micro.graph, _micro_sources(micro, number), 1) for number in range(micros)]
    groups = groups_of(micros)
    for group in groups:
        sources = [Source("item", member, slot) for slot in range(given) for member in group]
        items.append(Item(sums[len(group)], tuple(sources), 2))
    givers = range(micros, len(items)) if groups else range(micros)
    sources = [
        *(Source("carried", number) for number in range(carried)),
        Source("step"),
        *(Source("item", giver, slot) for slot in range(given) for giver in givers),
    ]
    series = (*(None for _ in range(carried)), 0, 1)
    items.append(Item(step, tuple(sources), STEP_AFFINITY, series, tuple(range(carried))))
    return tuple(items)


def evaluation_of(
    micro: MicroBatch, score: Graph, every: int, parts: int, data: tuple[TensorSpec, ...]
) -> Evaluation:
    """An evaluation: a task for each part of its data, and their mean.

    Args:
        micro: the task of a part. score: the graph of the mean of `parts` losses.
    """
    items = [Item(micro.graph, _micro_sources(micro, part), 3) for part in range(parts)]
    sources = tuple(Source("item", part) for part in range(parts))
    items.append(Item(score, sources, 4, series=(2,)))
    return Evaluation(every, tuple(items), parts, micro.rows, data, micro.keyed)


def _micro_sources(micro: MicroBatch, number: int) -> tuple[Source, ...]:
    carried = len(micro.carried)
    key = [Source("key", 0, number)] if micro.keyed else []
    flat = micro.graph.inputs[carried + micro.data + len(key) :]
    return (
        *(Source("carried", one) for one in range(carried)),
        *(Source("data", one, number) for one in range(micro.data)),
        *key,
        *(Source("fixed", one, 0, spec.count) for one, spec in zip(micro.fixed, flat, strict=True)),
    )
