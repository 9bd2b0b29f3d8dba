from __future__ import annotations

import pytest

from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph
from gpugoblin.plan.microbatches import micro_batch
from gpugoblin.plan.round_items import STEP_AFFINITY
from gpugoblin.plan.whole_rounds import GROUP, groups_of, round_of
from tests.helpers.trainings import SLOTS, linear_loss

MICRO = micro_batch(linear_loss(4), SLOTS)


def _like(specs: list[TensorSpec]) -> Graph:
    builder = GraphBuilder()
    return builder.build([builder.input(spec) for spec in specs])


@pytest.mark.parametrize("micros", [1, GROUP, GROUP + 1, 3 * GROUP])
def test_every_micro_batch_is_added_once_and_in_order(micros: int) -> None:
    sums = {len(group): _like(list(MICRO.graph.output_specs())) for group in groups_of(micros)}
    items = round_of(MICRO, sums, _like([TensorSpec("float32", (4,))]), 1, micros)
    *_, step = items
    assert (step.affinity, step.carried) == (STEP_AFFINITY, (0,))

    def leaves(place: int, slot: int) -> list[tuple[int, int]]:
        if place < micros:
            return [(place, slot)]
        return [one for source in items[place].sources if source.slot == slot
                for one in leaves(source.number, source.slot)]  # fmt: skip

    found = [one for source in step.sources if source.kind == "item"
             for one in leaves(source.number, source.slot)]  # fmt: skip
    assert found == [(number, slot) for slot in range(2) for number in range(micros)]
    assert [item.sources[1].slot for item in items[:micros]] == list(range(micros))
