from __future__ import annotations

from gpugoblin.plan.round_items import Item, Source, read_by
from tests.helpers.trainings import linear_loss

GRAPH = linear_loss(1)


def test_who_reads_in_the_round_and_who_in_the_next() -> None:
    items = [
        Item(GRAPH, (Source("carried", 0), Source("data", 1)), 1),
        Item(GRAPH, (Source("carried", 0), Source("carried", 1), Source("item", 0)), 1),
        Item(GRAPH, (Source("item", 0), Source("item", 1, 2)), 0, carried=(0, 1)),
    ]
    assert read_by(items, {0: (2, 0), 1: (2, 1)}) == ({0: [1, 2], 1: [2]}, {2: [0, 1]})
    assert read_by(items, {}) == ({0: [1, 2], 1: [2]}, {})
