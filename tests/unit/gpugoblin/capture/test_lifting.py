"""A graph that was lowered, lifted and lowered again is the same graph."""

from __future__ import annotations

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.caller import NOWHERE
from gpugoblin.capture.convert import memory_value
from gpugoblin.capture.lifting import lift
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.graph.serialize import graph_hash

X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)


def test_there_and_back() -> None:
    x = gg.array(X)
    values, places = gg.topk(gg.nn.softmax(x * 2.0 + 1.0), 2)
    outputs = [values.value, places.value, gg.sum(x.astype("int32") ** 2).value, (x + 1.0).value]
    made = lower(outputs)
    arrays = [source.array for source in made.sources if isinstance(source, MemorySource)]
    again = lower(lift(made.graph, [memory_value(one, NOWHERE) for one in arrays], NOWHERE))
    assert graph_hash(again.graph) == graph_hash(made.graph)
