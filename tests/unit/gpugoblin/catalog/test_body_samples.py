from __future__ import annotations

import numpy as np

from gpugoblin.catalog.body_samples import apply_formula, body, one_formula
from gpugoblin.catalog.spec import TensorSpec
from gpugoblin.graph.interpret import interpret

SPEC = TensorSpec("float32", (2,))
X, Y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)


def test_they_are_programs() -> None:
    (found,) = interpret(one_formula((SPEC, SPEC), "mul", (0, 1)), [X, Y])
    assert found.tolist() == [3, 8]
    made = body((SPEC,), (apply_formula("add", (0, 1), SPEC),), (2, 0), (Y,))
    assert [one.tolist() for one in interpret(made, [X])] == [[4, 6], [1, 2]]
