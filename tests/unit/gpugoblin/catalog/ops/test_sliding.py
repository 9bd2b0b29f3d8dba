from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.ops.sliding import FOLD, WINDOW
from gpugoblin.catalog.spec import Array, Halo, Split, TensorSpec
from gpugoblin.errors import GraphError

axes = st.lists(
    st.fixed_dictionaries(
        {
            "extent": st.integers(1, 7),
            "window": st.integers(1, 3),
            "stride": st.integers(1, 3),
            "dilation": st.integers(1, 2),
            "low": st.integers(-1, 2),
            "high": st.integers(-1, 2),
        }
    ),
    min_size=1,
    max_size=3,
)


def window(values: Array, **attributes: object) -> Array:
    return WINDOW.reference([values], dict(normalize_attributes(WINDOW, attributes)))[0]


def fold(values: Array, **attributes: object) -> Array:
    return FOLD.reference([values], dict(normalize_attributes(FOLD, attributes)))[0]


def test_windows_of_a_line() -> None:
    found = window(
        np.arange(1, 6, dtype=np.int32), window=(2,), stride=(2,), dilation=(2,), low=(1,),
        high=(0,),
    )  # fmt: skip
    assert found.tolist() == [[0, 2], [2, 4]]


def test_fold_adds_where_windows_meet() -> None:
    given_ = {"stride": (1,), "dilation": (1,), "low": (0,)}
    values = np.array([[1, 2, 3], [10, 20, 30]], np.float32)
    assert fold(values, space=(4,), **given_).tolist() == [1, 12, 23, 30]
    assert fold(values, space=(6,), **given_).tolist() == [1, 12, 23, 30, 0, 0]
    assert fold(values, space=(2,), **{**given_, "low": (1,)}).tolist() == [12, 23]


@settings(max_examples=60, deadline=None)
@given(axes)
def test_fold_is_the_adjoint_of_window(chosen: list[dict[str, int]]) -> None:
    given_ = {name: tuple(axis[name] for axis in chosen) for name in chosen[0]}
    space = given_.pop("extent")
    generator = np.random.default_rng(0)
    values = generator.integers(-9, 9, (2, *space)).astype(np.float32)
    laid = window(values, **given_)
    assume(laid.size)
    seed = generator.integers(-9, 9, laid.shape).astype(np.float32)
    del given_["window"], given_["high"]
    back = fold(seed, space=space, **given_)
    assert float((laid * seed).sum()) == float((values * back).sum())


def test_places_need_their_neighbors_and_the_window_stays_whole() -> None:
    given_ = {"window": (3,), "stride": (2,), "dilation": (2,), "low": (1,), "high": (0,)}
    assert WINDOW.splits([TensorSpec("float32", (4, 9))], given_) == (
        Split("i0", "parallel", (0,), 0),
        Split("k0", "whole", (None,), 1),
        Split("s0", "halo", (1,), 2, halo=Halo(2, 1, 5)),
    )


def test_what_does_not_fit_is_refused() -> None:
    plain = {"stride": (1,), "dilation": (1,), "low": (0,)}
    with pytest.raises(GraphError, match="rank 2 or more"):
        FOLD.infer([TensorSpec("float32", (4,))], {**plain, "space": (4,)})
    with pytest.raises(GraphError, match="integers of 0 or more"):
        FOLD.infer([TensorSpec("float32", (4, 3))], {**plain, "space": (-1,)})
    with pytest.raises(GraphError, match="fold"):
        FOLD.infer([TensorSpec("int32", (4, 3))], {**plain, "space": (4,)})
    with pytest.raises(GraphError, match="window"):
        WINDOW.infer([TensorSpec("float32", (4,))], {**plain, "high": (0,), "window": (0,)})


def test_against_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    values = np.random.default_rng(1).standard_normal((2, 3, 7, 6)).astype(np.float32)
    given_ = {"stride": (2, 1), "dilation": (1, 2), "low": (1, 0)}
    expected = torch.nn.functional.unfold(
        torch.tensor(values), (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)
    )
    found = window(values, window=(3, 2), high=(1, 0), **given_)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
    folded = torch.nn.functional.fold(
        expected, (7, 6), (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)
    )
    np.testing.assert_allclose(fold(found, space=(7, 6), **given_), folded, rtol=1e-6)
