from __future__ import annotations

import numpy as np

from gpugoblin.catalog.matrix_samples import broken, dominant, ramp


def test_what_they_promise() -> None:
    generator = np.random.default_rng(0)
    array = dominant(3, 5, 5)(generator)
    assert array.dtype == np.float32
    assert np.linalg.eigvalsh((array + array.swapaxes(1, 2)) / 2).min() > 1
    values = np.linalg.svd(ramp(2, 6, 4)(generator), compute_uv=False)
    assert values.min() > 0.2
    assert (values[:, :-1] - values[:, 1:]).min() > 0.05
    spoiled = broken(dominant(3, 3, 3))(generator)
    assert np.isfinite(spoiled).all(axis=(1, 2)).tolist() == [False, False, True]
