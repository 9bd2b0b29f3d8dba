from __future__ import annotations

import numpy as np
import pytest

from gpugoblin.catalog.attributes import check_attributes, normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.errors import GraphError


def test_defaults_order_and_plain_types() -> None:
    assert normalize_attributes(get("topk"), {"k": np.int32(3), "axis": 0}) == (
        ("axis", 0),
        ("k", 3),
        ("largest", True),
    )
    assert normalize_attributes(get("permute"), {"axes": np.array([1, 0])}) == (("axes", (1, 0)),)
    assert normalize_attributes(get("permute"), {"axes": range(2)}) == (("axes", (0, 1)),)


@pytest.mark.parametrize(
    ("operator", "given", "code"),
    [
        ("topk", {"k": 1}, "attribute_missing"),
        ("topk", {"k": 1, "axis": 0, "sorted": True}, "attribute_unknown"),
        ("topk", {"k": 1.0, "axis": 0}, "attribute_invalid"),
        ("topk", {"k": True, "axis": 0}, "attribute_invalid"),
        ("topk", {"k": 2**63, "axis": 0}, "attribute_invalid"),
        ("topk", {"k": 1, "axis": 0, "largest": 1}, "attribute_invalid"),
        ("permute", {"axes": 0}, "attribute_invalid"),
        ("permute", {"axes": "01"}, "attribute_invalid"),
        ("permute", {"axes": (0.5,)}, "attribute_invalid"),
        ("permute", {"axes": (True,)}, "attribute_invalid"),
        ("permute", {"axes": range(65)}, "attribute_invalid"),
        ("reduce", {"axes": (), "function": "median"}, "attribute_invalid"),
        ("reduce", {"axes": (), "function": 3}, "attribute_invalid"),
        ("cast", {"dtype": "float128"}, "attribute_invalid"),
        ("formula", {"tree": "x + y"}, "attribute_invalid"),
    ],
)
def test_bad_attributes(operator: str, given: dict[str, object], code: str) -> None:
    with pytest.raises(GraphError) as raised:
        normalize_attributes(get(operator), given)
    assert raised.value.code == code


def test_check_accepts_only_the_canonical_form() -> None:
    topk = get("topk")
    canonical = normalize_attributes(topk, {"k": 1, "axis": 0})
    check_attributes(topk, canonical)
    for broken in (
        canonical[:2],
        canonical[::-1],
        list(canonical),
        (("axis", 0), ("k", np.int64(1)), ("largest", True)),
        (("axis", 0), ("k", 1), "largest"),
    ):
        with pytest.raises(GraphError):
            check_attributes(topk, broken)  # type: ignore[arg-type]


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(GraphError) as raised:
        normalize_attributes(get("cast"), {"dtype": "x" * 10_000})
    assert len(str(raised.value)) < 500
