from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpugoblin.catalog.prove import prove, specs_of
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.spec import Attribute, Cost, Halo, Operator, TensorSpec

MATMUL = OPERATORS["matmul@1"]
TOPK = OPERATORS["topk@1"]


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.key)
def test_every_declaration_is_proven(operator: Operator) -> None:
    prove(operator)


def without(*names: str) -> Callable[[Operator], dict[str, Any]]:
    return lambda operator: {"samples": tuple(s for s in operator.samples if s.name not in names)}


BROKEN: dict[str, tuple[Operator, Callable[[Operator], dict[str, Any]], str]] = {
    "name": (MATMUL, lambda o: {"name": "Mat mul"}, "its name"),
    "version": (MATMUL, lambda o: {"version": 0}, "its version"),
    "order": (MATMUL, lambda o: {"attributes": o.attributes[::-1]}, "not sorted"),
    "default": (
        TOPK,
        lambda o: {"attributes": (*o.attributes[:2], Attribute("largest", "bool"))},
        "missing",
    ),
    "unclear default": (
        MATMUL,
        lambda o: {"attributes": (replace(o.attributes[0], required=True), o.attributes[1])},
        "a default is unclear",
    ),
    "choices": (
        TOPK,
        lambda o: {"attributes": (Attribute("axis", "choice"), *o.attributes[1:])},
        "choices are unclear",
    ),
    "summary": (MATMUL, lambda o: {"summary": ""}, "no summary"),
    "few samples": (MATMUL, lambda o: {"samples": o.samples[:4]}, "fewer than five"),
    "same samples": (MATMUL, lambda o: {"samples": o.samples + o.samples[:1]}, "one name"),
    "no empty": (MATMUL, without("empty_inner", "empty_rows"), "no sample is empty"),
    "no size 1": (MATMUL, without("size_1"), "size 1"),
    "no strides": (MATMUL, without("strided"), "non-contiguous"),
    "no nan": (MATMUL, without("special"), "NaN"),
    "arity": (MATMUL, lambda o: {"arity": (3, 3)}, "number of inputs"),
    "infer": (
        MATMUL,
        lambda o: {"infer": lambda inputs, attributes: (TensorSpec("float32", (1, 2)),)},
        "reference and infer differ",
    ),
    "cost": (
        MATMUL,
        lambda o: {"cost": lambda inputs, outputs, attributes: Cost(-1, 0, 0)},
        "negative cost",
    ),
    "splits": (
        MATMUL,
        lambda o: {"splits": lambda inputs, attributes: o.splits(inputs, attributes)[1:]},
        "output axis",
    ),
    "split twice": (
        MATMUL,
        lambda o: {"splits": lambda inputs, attributes: o.splits(inputs, attributes) * 2},
        "named twice",
    ),
    "split combine": (
        MATMUL,
        lambda o: {
            "splits": lambda inputs, attributes: tuple(
                replace(split, combine="") for split in o.splits(inputs, attributes)
            )
        },
        "combine",
    ),
    "split halo": (
        MATMUL,
        lambda o: {
            "splits": lambda inputs, attributes: tuple(
                replace(split, halo=Halo(1, 0, 3)) for split in o.splits(inputs, attributes)
            )
        },
        "a halo",
    ),
    "split extents": (
        MATMUL,
        lambda o: {
            "splits": lambda inputs, attributes: tuple(
                replace(split, operands=split.operands[::-1])
                for split in o.splits(inputs, attributes)
            )
        },
        "extents|input axes",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_declaration_does_not_load(name: str) -> None:
    operator, change, complaint = BROKEN[name]
    with pytest.raises((LookupError, ValueError), match=complaint):
        prove(replace(operator, **change(operator)))


def test_specs_of_arrays() -> None:
    arrays = [np.zeros((2, 3), np.float32), np.zeros((), np.bool_)]
    assert specs_of(arrays) == (TensorSpec("float32", (2, 3)), TensorSpec("bool", ()))
