"""The template of a round: tasks that every round has, and where their inputs come from.

Owns: the data, and who reads whom. `gpugoblin.plan.rounds` numbers the tasks of all rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.ir import Graph

__all__ = ["STEP_AFFINITY", "Evaluation", "Item", "Lateness", "Source", "Stored", "read_by"]

STEP_AFFINITY: Final = 0
"""The affinity of the tasks that end a round, and of no other."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A carried tensor before the first round: elements of a flat array of the job."""

    array: int
    offset: int
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class Source:
    """What an input of an item is.

    Args:
        kind: `carried`: tensor `number`, as it is before the round (after it, for an evaluation).
            `item`: output `slot` of item `number` of the same round; `earlier`: of the round
            before. `data`: rows of data array `number` for micro-batch `slot`. `key`: of
            micro-batch `slot`. `fixed`: `count` elements of flat fixed array `number` from `slot`
            on. `step`: the numbers of the steps.
    """

    kind: Literal["carried", "item", "earlier", "data", "key", "fixed", "step"]
    number: int = 0
    slot: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """A task of every round, or of every evaluation.

    Args:
        series: for each output the job's result that gets a row of it, or None; empty: none does.
        carried: for a step, which carried tensors its first outputs are.
    """

    graph: Graph
    sources: tuple[Source, ...]
    affinity: int
    series: tuple[int | None, ...] = ()
    carried: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lateness:
    """Rounds that may end without all of their first items (`gpugoblin.plan.arrivals`).

    Args:
        quorum: items without which none ends.
        step: the last item of a round, by the numbers of those that were in time, and of those of
            the round before that were late.
        largest: the graph of the largest such step.
        record: what was in time, round by round, in a run that this one repeats; empty: it is seen.
    """

    quorum: int
    step: Callable[[tuple[int, ...], tuple[int, ...]], Item]
    largest: Graph
    record: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The loss on data that is not trained on, every `every` rounds.

    Args:
        items: of one evaluation; its data and keys are those named here, in `parts` of `rows`
            examples. The last gives the mean loss.
        data: specs of the arrays. keyed: whether there is an array of keys, (2 * parts,).
    """

    every: int
    items: tuple[Item, ...]
    parts: int
    rows: int
    data: tuple[TensorSpec, ...]
    keyed: bool


def read_by(
    items: Sequence[Item], givers: Mapping[int, tuple[int, int]]
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """By the place of an item, the places of those that read its outputs, and of those that read
    what it carries on; sorted.

    Args:
        givers: for each carried tensor the item and the output that it is; empty: none is asked.
    """
    here: dict[int, list[int]] = {}
    later: dict[int, list[int]] = {}
    for place, item in enumerate(items):
        own = {source.number for source in item.sources if source.kind == "item"}
        old = {givers[one.number][0] for one in item.sources if one.kind == "carried" and givers}
        for one in own:
            here.setdefault(one, []).append(place)
        for one in old:
            later.setdefault(one, []).append(place)
    return here, later
