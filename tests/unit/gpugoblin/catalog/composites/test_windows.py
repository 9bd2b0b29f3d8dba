"""Transposed convolution and the pools, against their definitions and against PyTorch."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, Attributes, TensorSpec
from gpugoblin.errors import GraphError

TURNED = {"stride": (2, 1), "dilation": (1, 2), "low": (1, 0), "high": (1, 1), "extra": (1, 0)}
TURNED |= {"groups": 2}  # type: ignore[dict-item]


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def run(name: str, *inputs: Array, **attributes: object) -> Array:
    operator = get(name)
    (found,) = operator.reference(inputs, dict(normalize_attributes(operator, attributes)))
    return found


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def test_a_transposed_convolution_spreads_each_element() -> None:
    data, kernel = np.array([[[1, 0, 2]]], np.float32), np.array([[[1, 10, 100]]], np.float32)
    plain = {"stride": (2,), "dilation": (1,), "low": (0,), "high": (0,)}
    found = run("conv_transposed", data, kernel, **plain)
    assert found.tolist() == [[[1, 10, 100, 0, 2, 20, 200]]]
    cut = run("conv_transposed", data, kernel, **{**plain, "low": (1,), "high": (2,)})
    assert cut.tolist() == [[[10, 100, 0, 2]]]


def test_it_is_the_adjoint_of_the_convolution() -> None:
    data, kernel, seed = normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(2, 6, 4, 4)
    given_ = {"stride": (2, 2), "dilation": (1, 2), "low": (1, 1), "high": (1, 1), "groups": 2}
    forward = run("conv", data, kernel, between=(0, 0), **given_)
    assert forward.shape[:2] == seed.shape[:2]
    seed = normal(*forward.shape)
    # Of 6 + 2 columns the last is under no window.
    back = run("conv_transposed", seed, kernel, extra=(0, 1), **given_)
    assert back.shape == data.shape
    np.testing.assert_allclose((forward * seed).sum(), (back * data).sum(), rtol=1e-4)


def test_what_does_not_fit_is_refused() -> None:
    infer = get("conv_transposed").infer
    with pytest.raises(GraphError, match="a kernel of 4 inputs"):
        infer([f32(1, 4, 5, 5), f32(3, 4, 3, 3)], TURNED)
    with pytest.raises(GraphError, match="a divisor of 3"):
        infer([f32(1, 3, 5, 5), f32(3, 4, 3, 3)], TURNED)
    with pytest.raises(GraphError, match="extra"):
        infer([f32(1, 4, 5, 5), f32(4, 4, 3, 3)], {**TURNED, "extra": (-1, 0)})
    with pytest.raises(GraphError, match="ranks of 3 to 5"):
        infer([f32(4, 5), f32(4, 4)], TURNED)
    adaptive = get("adaptive_pool").infer
    with pytest.raises(GraphError, match="integers of 1 or more"):
        adaptive([f32(3, 5)], {"function": "max", "places": (0,)})
    with pytest.raises(GraphError, match="has no elements"):
        adaptive([f32(3, 0)], {"function": "max", "places": (2,)})


@settings(max_examples=60, deadline=None)
@given(
    extent=st.integers(1, 9),
    window=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2)),
    counted=st.booleans(),
)
def test_average_pool_is_its_definition(
    extent: int, window: int, stride: int, dilation: int, pads: tuple[int, int, int], counted: bool
) -> None:
    low, high, extra = pads
    values = normal(extent)
    found = run(
        "average_pool", values, window=(window,), stride=(stride,), dilation=(dilation,),
        low=(low,), high=(high,), extra=(extra,), count_padding=counted,
    )  # fmt: skip
    reach = (window - 1) * dilation + 1
    starts = range(-low, extent + high + extra - reach + 1, stride)
    assert len(found) == len(starts)
    for mean, start in zip(found, starts, strict=True):
        places = [start + step * dilation for step in range(window)]
        inside = [place for place in places if 0 <= place < extent]
        count = len([p for p in places if -low <= p < extent + high]) if counted else len(inside)
        expected = sum(values[inside].tolist()) / count if count else np.nan
        np.testing.assert_allclose(mean, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", ["max", "mean"])
@pytest.mark.parametrize("places", [(1, 1), (3, 5), (7, 2), (9, 6)])
def test_adaptive_pool_is_its_definition(function: str, places: tuple[int, int]) -> None:
    values = normal(2, 7, 6)
    found = run("adaptive_pool", values, function=function, places=places)
    assert found.shape == (2, *places)
    for row, column in product(*map(range, places)):
        cut = [slice(i * n // m, -(-(i + 1) * n // m))
               for i, n, m in zip((row, column), (7, 6), places, strict=True)]  # fmt: skip
        part = values[:, cut[0], cut[1]].astype(np.float64)
        expected = part.max((1, 2)) if function == "max" else part.mean((1, 2))
        np.testing.assert_allclose(found[:, row, column], expected, rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_against_torch(rank: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    functional = torch.nn.functional
    data, kernel = normal(2, 4, *(5,) * rank), normal(4, 3, *(3,) * rank)
    given_: Attributes = {
        "stride": (2,) * rank, "dilation": (2,) * rank, "low": (1,) * rank, "high": (1,) * rank,
        "extra": (1,) * rank, "groups": 2,
    }  # fmt: skip
    transposed = getattr(functional, f"conv_transpose{rank}d")
    expected = transposed(
        torch.tensor(data), torch.tensor(kernel), stride=2, padding=1, output_padding=1,
        groups=2, dilation=2,
    )  # fmt: skip
    found = run("conv_transposed", data, kernel, **given_)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    pool = getattr(functional, f"avg_pool{rank}d")
    ceil = pool(torch.tensor(data), 3, 2, 1, ceil_mode=True, count_include_pad=False)
    own = run(
        "average_pool", data, window=(3,) * rank, stride=(2,) * rank, dilation=(1,) * rank,
        low=(1,) * rank, high=(1,) * rank, count_padding=False,
    )  # fmt: skip
    np.testing.assert_allclose(own, ceil, rtol=1e-4, atol=1e-5)
    adaptive = getattr(functional, f"adaptive_max_pool{rank}d")(torch.tensor(data), 3)
    own = run("adaptive_pool", data, function="max", places=(3,) * rank)
    np.testing.assert_allclose(own, adaptive)
