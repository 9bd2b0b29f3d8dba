from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card import unrolling
from app.engine.backends.card.emission import Emission
from app.engine.backends.card.product import Problem, multiplied
from app.engine.backends.card.unrolling import unrolled
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.prove import specs_of
from gpugoblin.catalog.spec import Array
from gpugoblin.graph.ir import Graph
from tests.helpers.card_graphs import graph_of, require_right

CASES = {
    "plain": ((3, 20, 9, 11), (17, 20, 1, 1), {}),
    "windows": ((2, 16, 12, 13), (18, 16, 3, 3), {"low": (1, 1), "high": (1, 0)}),
    "strides": ((2, 4, 19, 17), (16, 4, 3, 2), {"stride": (2, 1), "dilation": (1, 3)}),
    "few places": ((5, 6, 12, 12), (16, 6, 10, 11), {}),
    "between": ((2, 16, 8, 9), (16, 16, 2, 2), {"between": (1, 2)}),
}


def case(name: str) -> tuple[Graph, list[Array]]:
    data, weights, given = CASES[name]
    random = np.random.default_rng(8)
    inputs = [random.standard_normal(shape).astype(np.float32) for shape in (data, weights)]
    fixed = {"stride": (1, 1), "dilation": (1, 1), "low": (0, 0), "high": (0, 0)}
    fixed |= {"between": (0, 0)}
    return graph_of("conv", inputs, **{**fixed, **given, "groups": 1}), inputs


def emission(graph: Graph, inputs: list[Array]) -> Emission | None:
    node = graph.nodes[0]
    return unrolled(
        node.attrs, specs_of(inputs), node.outputs, lambda problem: multiplied(problem, 32768)
    )


@pytest.mark.parametrize("name", CASES)
def test_convolutions_as_products(machine: Machine, name: str) -> None:
    graph, inputs = case(name)
    found = emission(graph, inputs)
    assert found is not None
    assert (found.scratch_bytes == 0) == (name == "plain")
    require_right(machine, graph, inputs)


def test_examples_that_do_not_fit_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, inputs = case("windows")
    whole = emission(graph, inputs)
    monkeypatch.setattr(unrolling, "LIMIT_BYTES", 1)
    parts = emission(graph, inputs)
    assert whole is not None
    assert parts is not None
    assert len(parts.stages) == 2 * len(whole.stages)
    assert parts.scratch_bytes == whole.scratch_bytes // 2
    require_right(machine, graph, inputs)


def test_what_is_too_small_is_left() -> None:
    random = np.random.default_rng(8)
    inputs = [random.standard_normal(s).astype(np.float32) for s in ((1, 2, 5), (3, 2, 2))]
    attributes = {"stride": (1,), "dilation": (1,), "low": (0,), "high": (0,), "between": (0,)}
    graph = graph_of("conv", inputs, groups=1, **attributes)
    assert emission(graph, inputs) is None


def test_batches_may_share_their_left_operand() -> None:
    assert Problem("float32", 3, 4, 5, 6, (False, False)).left_step == 24
    assert Problem("float32", 3, 4, 5, 6, (False, False), shared_left=True).left_step == 0
