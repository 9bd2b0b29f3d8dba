from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.errors import GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient
from gpugoblin.graph.interpret import interpret


@given(some.lists(some.booleans(), max_size=12), some.integers(0, 3))
def test_what_is_chosen_stands_in_front(chosen: list[bool], extra: int) -> None:
    mask = np.array(chosen, np.bool_)
    data = np.arange(1, 2 * mask.size + 1, dtype=np.float32).reshape(-1, 2)
    limit = sum(chosen) + extra
    values, count = get("compact").reference([data, mask], {"limit": limit})
    assert count == sum(chosen)
    np.testing.assert_array_equal(values[: sum(chosen)], data[mask])
    assert not values[sum(chosen) :].any()


@given(some.integers(1, 4), some.integers(0, 4), some.integers(0, 2**32))
def test_nonzero_is_numpys(rows: int, columns: int, seed: int) -> None:
    mask = np.random.default_rng(seed).integers(0, 2, (rows, columns, 2)) > 0
    places, count = get("nonzero").reference([mask], {"limit": mask.size + 1})
    expected = np.argwhere(mask)
    assert count == len(expected)
    np.testing.assert_array_equal(places[:count], expected)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_nothing_is_dropped(limit: int) -> None:
    mask = np.array([True, False, True, True])
    with pytest.raises(GraphError, match="index_out_of_range"):
        get("compact").reference([np.ones(4, np.float32), mask], {"limit": limit})
    with pytest.raises(GraphError, match="index_out_of_range"):
        get("nonzero").reference([mask], {"limit": limit})


def test_the_gradient_goes_back_to_what_was_chosen() -> None:
    builder = GraphBuilder()
    data, mask = builder.input(TensorSpec("float32", (4,))), builder.input(TensorSpec("bool", (4,)))
    values = builder.add("compact", [data, mask], limit=3)
    joint = gradient(builder.build([values]), [0], seeded=True)
    chosen, seed = np.array([False, True, False, True]), np.array([5, 7, 9], np.float32)
    found = interpret(joint, [np.ones(4, np.float32), chosen, seed])[1]
    assert found.tolist() == [0, 5, 0, 7]


def test_what_does_not_fit() -> None:
    data, mask = TensorSpec("float32", (4, 2)), TensorSpec("bool", (2,))
    with pytest.raises(GraphError, match="one bool"):
        get("compact").infer([data, mask], {"limit": 1})
    with pytest.raises(GraphError, match="dtype_unsupported"):
        get("nonzero").infer([data], {"limit": 1})
    with pytest.raises(GraphError, match="attribute_invalid"):
        get("nonzero").infer([mask], {"limit": -1})
