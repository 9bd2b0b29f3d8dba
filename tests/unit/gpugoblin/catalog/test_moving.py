from __future__ import annotations

import numpy as np

from gpugoblin.catalog.registry import get


def test_errors_travel_with_the_elements() -> None:
    flip = get("flip")
    propagate = flip.tolerance.propagate
    assert propagate is not None
    array, given = np.array([1.0, 2.0], np.float32), {"axes": (0,)}
    outputs = flip.reference([array], given)
    assert propagate([array], [None], outputs, given) == (None,)
    (error,) = propagate([array], [np.array([0.5, 0.0])], outputs, given)
    assert error is not None
    assert error.tolist() == [0.0, 0.5]
    assert outputs[0].flags.c_contiguous
