from __future__ import annotations

import numpy as np

from gpugoblin.catalog.ops.searching import SEARCHSORTED

LINE = np.array([1.0, 2.0, 2.0, 5.0], np.float32)
VALUES = np.array([0.0, 2.0, 9.0, np.nan], np.float32)


def test_it_is_a_count() -> None:
    (left,) = SEARCHSORTED.reference([LINE, VALUES], {"right": False})
    (right,) = SEARCHSORTED.reference([LINE, VALUES], {"right": True})
    assert left.tolist() == [0, 1, 4, 4]
    assert right.tolist() == [0, 3, 4, 4]
    (same,) = SEARCHSORTED.reference([LINE[[2, 0, 3, 1]], VALUES], {"right": True})
    assert same.tolist() == right.tolist()


def test_errors_open_what_is_near() -> None:
    propagate = SEARCHSORTED.tolerance.propagate
    assert propagate is not None
    outputs = SEARCHSORTED.reference([LINE, VALUES], {"right": False})
    assert propagate([LINE, VALUES], [None, None], outputs, {"right": False}) == (None,)
    for errors in ([np.full(4, 0.1), None], [None, np.full(4, 0.1)]):
        (error,) = propagate([LINE, VALUES], errors, outputs, {"right": False})
        assert error is not None
        assert error[:3].tolist() == [0.0, 2.0, 0.0]
