from __future__ import annotations

import numpy as np

from gpugoblin.catalog import samples


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_kinds_of_arrays() -> None:
    assert samples.normal(2, 3)(rng()).dtype == np.float32
    assert samples.ints(50, dtype="int64", low=-1, high=1)(rng()).dtype == np.int64
    assert set(samples.ints(50, low=-1, high=1)(rng()).tolist()) == {-1, 0, 1}
    assert samples.truth(4)(rng()).dtype == np.bool_
    special = samples.special(5, 2)(rng())
    assert np.isnan(special).sum() == 1
    assert np.isinf(special).sum() == 2


def test_strided_has_the_same_numbers() -> None:
    plain, strided = samples.normal(3, 4)(rng()), samples.strided(samples.normal(3, 4))(rng())
    assert not strided.flags.c_contiguous
    np.testing.assert_array_equal(plain, strided)


def test_a_sample_makes_its_inputs_in_order_from_the_generator() -> None:
    sample = samples.sample("two", samples.normal(2), samples.normal(3), axis=1)
    first, second = sample.inputs(rng())
    assert (first.shape, second.shape) == ((2,), (3,))
    assert sample.attributes == {"axis": 1}
    np.testing.assert_array_equal(first, sample.inputs(rng())[0])
