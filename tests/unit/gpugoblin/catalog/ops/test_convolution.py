from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.ops.convolution import CONV
from gpugoblin.catalog.spec import Attributes, Halo, Split, TensorSpec
from gpugoblin.errors import GraphError

PLAIN: Attributes = {
    "stride": (1,),
    "dilation": (1,),
    "low": (0,),
    "high": (0,),
    "between": (0,),
    "groups": 1,
}


def f32(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape)


def test_one_line() -> None:
    data = np.array([[[1, 2, 3, 4]]], np.float32)
    kernel = np.array([[[1, 10]]], np.float32)
    assert CONV.reference([data, kernel], PLAIN)[0].tolist() == [[[21, 32, 43]]]
    padded = {**PLAIN, "low": (1,), "stride": (2,)}
    assert CONV.reference([data, kernel], padded)[0].tolist() == [[[10, 32]]]
    spread = {**PLAIN, "between": (1,)}
    assert CONV.reference([data, kernel], spread)[0].tolist() == [[[1, 20, 2, 30, 3, 40]]]


@pytest.mark.parametrize(
    ("data", "kernel", "changed", "code"),
    [
        (f32(1, 2, 5), f32(3, 3, 3), {}, "shapes_mismatch"),
        (f32(1, 2), f32(3, 2), {}, "shapes_mismatch"),
        (f32(1, 4, 5), f32(3, 2, 3), {"groups": 2}, "attribute_invalid"),
        (f32(1, 4, 5), f32(4, 2, 3), {"groups": 0}, "attribute_invalid"),
        (f32(1, 2, 5), f32(3, 2, 3), {"stride": (1, 1)}, "attribute_invalid"),
    ],
)
def test_what_does_not_fit_is_refused(
    data: TensorSpec, kernel: TensorSpec, changed: Attributes, code: str
) -> None:
    with pytest.raises(GraphError, match=code):
        CONV.infer([data, kernel], {**PLAIN, **changed})


def test_channels_are_summed() -> None:
    splits = CONV.splits([f32(2, 3, 5), f32(4, 3, 3)], PLAIN)
    assert splits[:3] == (
        Split("n", "parallel", (0, None), 0),
        Split("o", "parallel", (None, 0), 1),
        Split("c", "sum", (1, 1), None, combine="add"),
    )


def test_places_need_their_neighbors() -> None:
    changed = {**PLAIN, "stride": (2,), "dilation": (3,), "low": (1,), "between": (1,)}
    splits = {split.index: split for split in CONV.splits([f32(2, 3, 9), f32(4, 3, 3)], changed)}
    assert splits["s0"] == Split("s0", "halo", (2, None), 2, halo=Halo(2, 1, 7, 1))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_against_torch(rank: int, groups: int) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    generator = np.random.default_rng(0)
    data = generator.standard_normal((2, 4, *(7,) * rank)).astype(np.float32)
    kernel = generator.standard_normal((6, 4 // groups, *(3,) * rank)).astype(np.float32)
    given = {
        "stride": (2,) * rank,
        "dilation": (2,) * rank,
        "low": (1,) * rank,
        "high": (1,) * rank,
        "between": (0,) * rank,
        "groups": groups,
    }
    function = getattr(torch.nn.functional, f"conv{rank}d")
    expected = function(
        torch.tensor(data), torch.tensor(kernel), stride=2, dilation=2, padding=1, groups=groups
    )
    np.testing.assert_allclose(
        CONV.reference([data, kernel], given)[0], expected, rtol=1e-4, atol=1e-5
    )
