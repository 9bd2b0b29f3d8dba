from __future__ import annotations

import numpy as np

from app.engine.backends.card.steps import CardStep, first_error


def test_the_first_error_is_told_with_its_node() -> None:
    steps = [CardStep(4, (), 1.0), CardStep(6, (), 1.0, (1, 3)), CardStep(9, (), 1.0, (0, 2))]
    nothing = np.zeros((3, 2), np.int64)
    assert first_error(steps, nothing) is None
    found = first_error(steps, np.array([[7, 1], [-1, 1], [5, 1]]))
    assert found is not None
    node, error = found
    assert (node, error.code, error.values) == (6, "index_out_of_range", (-1, 1, 3))
