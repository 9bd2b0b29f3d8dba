"""attention: softmax(scale q k^T + mask) v. Owns: its declaration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from gpugoblin.catalog.building import call, expression, reshaped
from gpugoblin.catalog.composite import composite
from gpugoblin.catalog.composites.activation import softmax_steps
from gpugoblin.catalog.formula_build import FormulaBuilder
from gpugoblin.catalog.rules import bool_attribute, require_rank, same_dtype, shapes_error
from gpugoblin.catalog.samples import normal, sample, special, strided, truth
from gpugoblin.catalog.spec import FLOATS, Attribute, Attributes, Builder, TensorSpec
from gpugoblin.errors import GraphError

__all__ = ["OPERATORS"]


def _require(inputs: Sequence[TensorSpec], attributes: Attributes) -> None:
    query, key, value, scale, *masks = inputs
    same_dtype("attention", inputs[:4], FLOATS)
    for spec in (query, key, value):
        require_rank("attention", spec, 2)
    if scale.rank:
        raise shapes_error("attention", inputs, "the scale, the fourth, must be a scalar")
    fits = (
        query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
        and query.shape[-1] == key.shape[-1]
        and key.shape[-2] == value.shape[-2]
    )
    if not fits:
        reason = "[..., m, d], [..., n, d] and [..., n, e] with equal batch axes are wanted"
        raise shapes_error("attention", inputs, reason)
    whole = (*query.shape[:-1], key.shape[-2])
    for mask in masks:
        if mask.dtype not in ("bool", query.dtype):
            raise GraphError(
                "dtype_unsupported",
                operator="attention (mask)",
                dtypes=mask.dtype,
                accepted=f"bool, {query.dtype}",
            )
        aligned = whole[len(whole) - mask.rank :] if mask.rank <= len(whole) else ()
        if mask.rank > len(whole) or any(
            own not in (1, extent) for own, extent in zip(mask.shape, aligned, strict=True)
        ):
            raise shapes_error("attention", inputs, f"the mask must broadcast against {whole}")


def _attention(builder: Builder, inputs: Sequence[int], attributes: Attributes) -> tuple[int, ...]:
    query, key, value, scale, *masks = inputs
    scores = call(builder, "mul", builder.add("matmul", [query, key], transpose_b=True), scale)
    if masks and builder.spec(masks[0]).dtype == "bool":
        scores = expression(builder, [masks[0], scores], _hidden)
    elif masks:
        scores = call(builder, "add", scores, masks[0])
    if bool_attribute(attributes, "causal"):
        rows, columns = builder.spec(scores).shape[-2:]
        row = reshaped(builder, builder.add("iota", [], count=rows), (rows, 1))
        seen = call(builder, "ge", row, builder.add("iota", [], count=columns))
        scores = expression(builder, [seen, scores], _hidden)
    weights = softmax_steps(builder, scores, builder.spec(scores).rank - 1)
    return (builder.add("matmul", [weights, value]),)


def _hidden(build: FormulaBuilder, seen: int, score: int) -> int:
    return build.call("where", seen, score, build.real(-math.inf))


OPERATORS: Final = (
    composite(
        "attention",
        (4, 5),
        (Attribute("causal", "bool", required=False, default=False),),
        _require,
        _attention,
        (
            sample("plain", normal(5, 4), normal(6, 4), normal(6, 3), normal()),
            sample("heads", normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 2), normal()),
            sample(
                "causal", normal(2, 5, 4), normal(2, 5, 4), normal(2, 5, 4), normal(), causal=True
            ),
            sample(
                "mask", normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 3), normal(), normal(4, 5)
            ),
            sample("bools", normal(3, 4), normal(9, 4), normal(9, 2), normal(), truth(3, 9)),
            sample("empty", normal(0, 4), normal(3, 4), normal(3, 2), normal()),
            sample("no_keys", normal(2, 4), normal(0, 4), normal(0, 2), normal()),
            sample("size_1", normal(1, 1), normal(1, 1), normal(1, 1), normal()),
            sample("strided", strided(normal(3, 4)), normal(3, 4), strided(normal(3, 4)), normal()),
            sample("special", special(3, 4), normal(3, 4), normal(3, 4), normal()),
        ),
        "softmax(scale q k^T + mask) v. Inputs: q [..., m, d], k [..., n, d], v [..., n, e], scale "
        "(a scalar), and a mask that broadcasts against [..., m, n]: a float is added, bool says "
        "what is seen. `causal`: row i sees columns 0 to i.",
    ),
)
