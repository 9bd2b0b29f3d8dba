"""What the agent reports of a card is what the card refuses by, for every sample of the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from app.engine.backends.card.layout import require_served
from app.engine.backends.card.served import NARROW_DTYPES, WIDE_DTYPES
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import DTYPES, Attributes, Operator, TensorSpec
from gpugoblin.errors import EngineError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.dtypes import EVERY_DTYPE, Dtypes, needs_of
from gpugoblin.graph.ir import Graph

__all__: list[str] = []


def graphs() -> Iterator[Graph]:
    """Every sample, also with each other dtype in the place of float32 where it may have that."""
    for operator in OPERATORS.values():
        for sample in operator.samples:
            specs = specs_of(sample.inputs(np.random.default_rng(0)))
            for dtype in DTYPES:
                changed = [
                    replace(spec, dtype=dtype) if spec.dtype == "float32" else spec
                    for spec in specs
                ]
                with suppress(GraphError):
                    yield graph_of(operator, changed, sample.attributes)


def graph_of(operator: Operator, specs: Sequence[TensorSpec], attributes: Attributes) -> Graph:
    builder = GraphBuilder()
    values = [builder.input(spec) for spec in specs]
    return builder.build(builder.add_many(operator.name, values, **attributes))


def refused(graph: Graph, served: Dtypes) -> str:
    try:
        require_served(graph, served=served)
    except EngineError as error:
        return error.what
    return ""


@pytest.mark.parametrize("served", [NARROW_DTYPES, WIDE_DTYPES], ids=["no 16 bits", "16 bits"])
def test_dtypes_alone_decide_what_more_dtypes_would_change(served: Dtypes) -> None:
    seen = {True: 0, False: 0}
    for graph in graphs():
        if refused(graph, EVERY_DTYPE):
            continue  # for an operator: no dtype makes a difference
        missing = needs_of(graph).mask() & ~served.mask()
        seen[bool(missing)] += 1
        assert bool(refused(graph, served)) == bool(missing), graph
    assert seen[True] > 100
    assert seen[False] > 100


def test_what_cards_have_not() -> None:
    for served in (NARROW_DTYPES, WIDE_DTYPES):
        assert "float64" not in served.values
        assert not served.arithmetic & {"int8", "int16", "uint8"}
        assert served.convolutions == {"float32"}
    assert WIDE_DTYPES.values - NARROW_DTYPES.values == {"int16", "float16", "bfloat16"}
