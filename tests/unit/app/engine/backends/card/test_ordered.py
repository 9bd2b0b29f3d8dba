"""Class `exact` bit for bit, on what divides correctly and stays above 2^-126, as lavapipe does."""

from __future__ import annotations

import numpy as np
import pytest

from app.engine.backends.card import ordered
from app.engine.backends.card.layout import lay_out, require_served
from app.engine.backends.card.ordered import ORDERED
from app.engine.backends.card.target import Target
from app.engine.backends.vulkan.machine import Machine
from gpugoblin.catalog.exact import EXACT_RULES
from gpugoblin.catalog.formula_build import call_formula
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError
from gpugoblin.graph.exact import not_exact
from tests.helpers.card_graphs import graph_of
from tests.helpers.exact_cards import require_bits


def random_of(*shape: int) -> Array:
    return np.random.default_rng(6).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right", "given"),
    [
        ((3, 1100), (1100, 5), {}),
        ((70, 33), (33, 65), {}),
        ((2, 9, 40), (2, 40, 50), {}),
        ((600, 34), (35, 600), {"transpose_a": True, "transpose_b": True}),
        ((3, 0), (0, 4), {}),
    ],
)
def test_products(
    machine: Machine, left: tuple[int, ...], right: tuple[int, ...], given: dict[str, object]
) -> None:
    inputs = [random_of(*left), random_of(*right)]
    require_bits(machine, graph_of("matmul", inputs, **given), inputs)


@pytest.mark.parametrize("function", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((7, 5), (1,)), ((3, 1300), (1,)), ((1100, 4), (0,)), ((9, 11, 13), (0, 2))]
)
def test_reductions(
    machine: Machine, function: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    data = random_of(*shape)
    if function == "prod":
        data = np.float32(1) + data / np.float32(1000)
    data.reshape(-1)[:3] = -0.0
    require_bits(machine, graph_of("reduce", [data], function=function, axes=axes), [data])


def test_sums_of_more_than_one_level(machine: Machine) -> None:
    data = random_of(2, 300_000)
    require_bits(machine, graph_of("reduce", [data], function="sum", axes=(1,)), [data])


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "attention", "conv", "pool"])
def test_operators_of_networks(machine: Machine, name: str) -> None:
    operator = OPERATORS[f"{name}@1"]
    sample = operator.samples[0]
    inputs = sample.inputs(np.random.default_rng(3))
    require_bits(machine, graph_of(name, inputs, **sample.attributes), inputs)


@pytest.mark.parametrize("key", ["fold@1", "scan_reduce@1", "scatter@1"])
def test_other_orders(machine: Machine, key: str) -> None:
    operator = OPERATORS[key]
    for sample in operator.samples:
        inputs = sample.inputs(np.random.default_rng(3))
        graph = graph_of(operator.name, inputs, **sample.attributes)
        if not_exact(graph) is None and graph.output_specs()[0].dtype == "float32":
            require_bits(machine, graph, inputs)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "pow", "div", "sqrt", "fmod"])
def test_functions(machine: Machine, name: str) -> None:
    count = 2 if name in ("pow", "div", "fmod") else 1
    inputs = [random_of(500) + np.float32(place) for place in range(count)]
    require_bits(machine, graph_of("formula", inputs, tree=call_formula(name)), inputs)


def test_every_rule_of_the_class_has_an_emitter() -> None:
    assert set(EXACT_RULES) - set(ORDERED) == {"formula@1", "random@1"}


def test_products_whose_blocks_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "MOST_TERMS", 10)
    graph = graph_of("matmul", [random_of(2, 11), random_of(11, 2)])
    with pytest.raises(EngineError) as raised:
        lay_out(require_served(graph, "exact"), lambda node, specs: None, Target(ordered=True))
    assert raised.value.code == "task_refused"


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(EngineError, match="cholesky"):
        require_served(graph_of("cholesky", [np.eye(3, dtype=np.float32)]), "exact")
