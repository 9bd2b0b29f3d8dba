"""resize: what the weights must reproduce, and PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError


def resize(values: Array, **attributes: object) -> Array:
    operator = get("resize")
    (found,) = operator.reference([values], dict(normalize_attributes(operator, attributes)))
    return found


LINE = np.array([10, 20, 30, 40], np.float32)


def test_nearest() -> None:
    given_ = {"method": "nearest", "alignment": "asymmetric", "places": (6,)}
    assert resize(LINE, **given_).tolist() == [10, 10, 20, 30, 30, 40]
    assert resize(LINE, **given_, rounding="ceil").tolist() == [10, 20, 30, 30, 40, 40]
    # Places lie at 0.5 and 2.5.
    halves = {"method": "nearest", "alignment": "half", "places": (2,)}
    assert resize(LINE, **halves, rounding="half_down").tolist() == [10, 30]
    assert resize(LINE, **halves, rounding="half_up").tolist() == [20, 40]


def test_linear() -> None:
    half = {"method": "linear", "alignment": "half"}
    assert resize(LINE, **half, places=(8,)).tolist() == [
        10,
        12.5,
        17.5,
        22.5,
        27.5,
        32.5,
        37.5,
        40,
    ]
    assert resize(LINE, **half, places=(2,)).tolist() == [15, 35]
    corners = {"method": "linear", "alignment": "corners"}
    assert resize(LINE, **corners, places=(7,)).tolist() == [10, 15, 20, 25, 30, 35, 40]
    assert resize(LINE, **corners, places=(1,)).tolist() == [10]
    scaled = resize(LINE, **half, places=(5,), numerators=(2,), denominators=(3,))
    np.testing.assert_allclose(scaled, [10, 15, 21.666666, 28.333334, 35], rtol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 12),
    st.integers(1, 20),
    st.sampled_from(["half", "corners", "asymmetric"]),
    st.sampled_from(["linear", "cubic", "nearest"]),
    st.booleans(),
)
def test_weights_add_up_to_one(
    extent: int, count: int, alignment: str, method: str, smooth: bool
) -> None:
    """A constant stays one, and what is between stays between (but for cubics, that overshoot)."""
    given_ = {"method": method, "alignment": alignment, "places": (count,)}
    given_["smooth"] = smooth and method != "nearest"
    constant = np.full(extent, 3.0, np.float32)
    np.testing.assert_allclose(resize(constant, **given_), 3.0, rtol=1e-6)
    if method != "cubic":
        rising = resize(np.arange(extent, dtype=np.float32), **given_)
        assert (np.diff(rising) >= -1e-6).all()


def test_cubics_keep_lines_and_with_one_half_parabolas() -> None:
    given_ = {"method": "cubic", "alignment": "corners", "places": (19,)}
    x = np.linspace(0, 9, 19)
    line = resize(np.arange(10, dtype=np.float32), **given_)
    np.testing.assert_allclose(line[2:-2], x[2:-2], rtol=2e-2)
    parabola = resize(np.arange(10, dtype=np.float32) ** 2, **given_, parameter="-1/2")
    np.testing.assert_allclose(parabola[2:-2], x[2:-2] ** 2, rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    given_ = {
        "method": "nearest", "alignment": "half", "places": (3,), "smooth": False,
        "numerators": (), "denominators": (),
    }  # fmt: skip
    infer, spec = get("resize").infer, TensorSpec("float32", (2, 4))
    for changed in (
        {"places": (0,)},
        {"places": ()},
        {"numerators": (1, 2)},
        {"denominators": (0,)},
        {"smooth": True},
    ):
        with pytest.raises(GraphError, match="attribute_invalid"):
            infer([spec], {**given_, **changed})
    with pytest.raises(GraphError, match="has no elements"):
        infer([TensorSpec("float32", (2, 0))], given_)


@pytest.mark.parametrize("places", [(7, 3), (12, 17), (5, 6)])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_against_torch(places: tuple[int, int], corners: bool, method: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    resizing = torch.nn.functional.interpolate
    values = np.random.default_rng(0).standard_normal((2, 3, 5, 9)).astype(np.float32)
    mode = {"linear": "bilinear", "cubic": "bicubic"}[method]
    expected = resizing(torch.tensor(values), places, mode=mode, align_corners=corners)
    found = resize(values, method=method, alignment="corners" if corners else "half", places=places)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    smoothed = resizing(torch.tensor(values), places, mode=mode, antialias=True)
    found = resize(
        values, method=method, alignment="half", places=places, smooth=True, parameter="-1/2"
    )
    np.testing.assert_allclose(found, smoothed, rtol=1e-4, atol=1e-5)
    exact = resizing(torch.tensor(values), places, mode="nearest-exact")
    found = resize(values, method="nearest", alignment="half", rounding="half_up", places=places)
    np.testing.assert_array_equal(found, exact)
