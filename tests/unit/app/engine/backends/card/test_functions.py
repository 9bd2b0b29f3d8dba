from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.engine.backends.card.elementwise import chain
from app.engine.backends.card.functions import FUNCTIONS, SERVED
from app.engine.backends.vulkan.machine import Machine
from tests.helpers.card_graphs import graph_of, require_right
from tests.helpers.formulas import VALIDATOR, judge, random_inputs, random_tree

judged = pytest.mark.skipif(VALIDATOR is None, reason="spirv-val is not installed")


def require_valid(seeds: range, folder: Path, most: int) -> None:
    for seed in seeds:
        random = np.random.default_rng(seed)
        inputs = random_inputs(random)
        tree = random_tree(random, inputs, int(random.integers(1, most)))
        graph = graph_of("formula", inputs, tree=tree)
        result = len(inputs)
        reads = list(range(result))
        (stage,) = chain(graph.nodes, [result], reads, [result], graph.specs())
        said = judge(stage.words, folder)
        assert not said, f"seed {seed}: {said}"


def require_computed(machine: Machine, seeds: range) -> None:
    for seed in seeds:
        random = np.random.default_rng(seed)
        inputs = random_inputs(random)
        tree = random_tree(random, inputs, int(random.integers(1, 12)))
        require_right(machine, graph_of("formula", inputs, tree=tree), inputs)


@judged
def test_modules_of_random_trees_are_valid(tmp_path: Path) -> None:
    require_valid(range(200), tmp_path, 10)


@judged
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_modules_of_many_random_trees_are_valid(tmp_path: Path) -> None:
    require_valid(range(1000, 11000), tmp_path, 60)


def test_random_trees_are_computed_right(machine: Machine) -> None:
    require_computed(machine, range(12))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_trees_are_computed_right(machine: Machine) -> None:
    require_computed(machine, range(2000, 3000))


def test_functions_are_of_the_catalog() -> None:
    from gpugoblin.catalog.scalars import SCALARS

    assert set(FUNCTIONS) <= set(SCALARS)
    assert set(SCALARS) == SERVED
