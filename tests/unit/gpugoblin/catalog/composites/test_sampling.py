"""grid_sample: positions, paddings, and PyTorch's values."""

from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import Array, TensorSpec
from gpugoblin.errors import GraphError

IMAGE = np.array([[[10, 20, 30, 40]]], np.float32)


def read(data: Array, grid: Array, **attributes: object) -> Array:
    operator = get("grid_sample")
    (found,) = operator.reference([data, grid], dict(normalize_attributes(operator, attributes)))
    return found


def line(*points: float, **attributes: object) -> list[float]:
    grid = np.array(points, np.float32).reshape(1, -1, 1)
    values: list[float] = read(IMAGE, grid, **attributes)[0, 0].tolist()
    return values


def test_positions() -> None:
    linear = {"method": "linear", "padding": "zeros"}
    assert line(-1, 0, 1, 2 / 3, corners=True, **linear) == pytest.approx([10, 25, 40, 35])
    assert line(-1, -0.75, 0, 0.75, 1, **linear) == pytest.approx([5, 10, 25, 40, 20])
    nearest = {"method": "nearest", "padding": "zeros"}
    assert line(-0.7, 0.3, 1.3, **nearest) == [10, 30, 0]
    # Halves go to even elements: 0.5 to 0, 1.5 and 2.5 to 2.
    assert line(-2 / 3, 0, 2 / 3, corners=True, **nearest)[1] == 30


def test_paddings() -> None:
    assert line(-3, 1.1, 9, method="linear", padding="border") == [10, 40, 40]
    assert line(-1e30, 1e30, method="linear", padding="zeros") == [0, 0]
    # Edges at -0.5 and 3.5: 1.25 is 4 in elements, and comes back to 3.
    assert line(1.25, -1.75, method="linear", padding="reflection") == pytest.approx([40, 20])
    mirrored = line(5 / 3, -5 / 3, method="linear", padding="reflection", corners=True)
    assert mirrored == pytest.approx([30, 20])


def test_what_is_outside_does_not_count_even_if_the_edge_is_infinite() -> None:
    image = np.array([[[np.inf, 1, 2]]], np.float32)
    grid = np.array([[[-5.0], [0.0]]], np.float32)
    assert read(image, grid, method="linear", padding="zeros")[0, 0].tolist() == [0, 1]


def test_the_first_coordinate_is_along_the_last_axis() -> None:
    image = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    grid = np.array([[[[-1, 1]]]], np.float32)
    found = read(image, grid, method="nearest", padding="zeros", corners=True)
    assert found.tolist() == [[[[3]]]]


def test_what_does_not_fit_is_refused() -> None:
    infer = get("grid_sample").infer
    given = {"method": "linear", "padding": "zeros", "corners": False}

    def f32(*shape: int) -> TensorSpec:
        return TensorSpec("float32", shape)

    with pytest.raises(GraphError, match="ranks of 3 to 5"):
        infer([f32(1, 1, 3), f32(1, 1, 3, 1)], given)
    with pytest.raises(GraphError, match="positions"):
        infer([f32(1, 1, 3, 3), f32(1, 1, 3, 3)], given)
    with pytest.raises(GraphError, match="positions"):
        infer([f32(2, 1, 3), f32(1, 3, 1)], given)
    with pytest.raises(GraphError, match="no elements"):
        infer([f32(1, 1, 0), f32(1, 3, 1)], given)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("axes", [2, 3])
def test_against_torch(padding: str, corners: bool, method: str, axes: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    generator = np.random.default_rng(0)
    data = generator.standard_normal((2, 3, *(4, 5, 3)[:axes])).astype(np.float32)
    grid = (generator.standard_normal((2, *(6, 2, 3)[:axes], axes)) * 1.5).astype(np.float32)
    expected = torch.nn.functional.grid_sample(
        torch.tensor(data), torch.tensor(grid), {"linear": "bilinear"}.get(method, method),
        padding, corners,
    )  # fmt: skip
    found = read(data, grid, method=method, padding=padding, corners=corners)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
