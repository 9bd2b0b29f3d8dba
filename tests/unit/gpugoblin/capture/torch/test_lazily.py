"""gg.function with torch: lazy arrays in, lazy arrays out."""

from __future__ import annotations

import numpy as np

import gpugoblin as gg
from gpugoblin.capture.lower import lower
from gpugoblin.capture.torch.lazily import speaks_torch
from gpugoblin.graph.interpret import interpret
from tests.helpers.torch_programs import numbers, torch_or_skip

torch = torch_or_skip()


def test_a_function_of_torch_on_lazy_arrays() -> None:
    @gg.function
    def f(x: object, w: object) -> object:
        return torch.tanh(x @ w).mean(0)  # type: ignore[operator]

    x, w = numbers(5, 4), numbers(4, 3, seed=1)
    result = f(gg.array(x.numpy()), w)
    assert isinstance(result, gg.Array)
    assert result.shape == (3,)
    found = lower([result.value])
    arrays = {source.spec.shape: source for source in found.sources}
    assert set(arrays) == {(5, 4), (4, 3)}
    given = [source.array for source in found.sources]  # type: ignore[union-attr]
    expected = torch.tanh(x @ w).mean(0).numpy()
    np.testing.assert_allclose(interpret(found.graph, given)[0], expected, rtol=1e-5, atol=1e-6)


def test_functions_of_arrays_are_not_taken_for_torch() -> None:
    assert not speaks_torch(lambda x: gg.exp(x), [np.ones(3)])
    assert speaks_torch(lambda x: torch.exp(x), [])
    assert speaks_torch(lambda x: x, [numbers(2)])
