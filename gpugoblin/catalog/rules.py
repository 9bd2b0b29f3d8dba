"""Small rules that many operators share: dtype and axis checks, plain costs, parallel splits.

Owns: the wording of their errors. Must not: know one operator from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpugoblin.catalog.spec import Attributes, AttrValue, Cost, Split, TensorSpec
from gpugoblin.errors import GraphError

__all__ = [
    "bool_attribute",
    "int_attribute",
    "ints_attribute",
    "moved",
    "parallel_axes",
    "require_axis",
    "require_dtype",
    "require_rank",
    "same_dtype",
    "shapes_error",
    "text_attribute",
]

_Kind = TypeVar("_Kind", int, bool, str, tuple[int, ...])


def int_attribute(attributes: Attributes, name: str) -> int:
    return _typed(attributes[name], int)


def bool_attribute(attributes: Attributes, name: str) -> bool:
    return _typed(attributes[name], bool)


def text_attribute(attributes: Attributes, name: str) -> str:
    return _typed(attributes[name], str)


def ints_attribute(attributes: Attributes, name: str) -> tuple[int, ...]:
    return _typed(attributes[name], tuple)


def _typed(value: AttrValue, kind: type[_Kind]) -> _Kind:
    if not isinstance(value, kind):
        raise TypeError(f"attribute of kind {kind.__name__} expected, got {type(value).__name__}")
    return value


def require_dtype(operator: str, spec: TensorSpec, accepted: Sequence[str]) -> None:
    if spec.dtype not in accepted:
        raise GraphError(
            "dtype_unsupported",
            operator=operator,
            dtypes=spec.dtype,
            accepted=", ".join(accepted),
        )


def same_dtype(operator: str, specs: Sequence[TensorSpec], accepted: Sequence[str]) -> str:
    """The one dtype of all `specs`."""
    dtype = specs[0].dtype
    require_dtype(operator, specs[0], accepted)
    if any(spec.dtype != dtype for spec in specs):
        raise GraphError(
            "dtype_unsupported",
            operator=operator,
            dtypes=", ".join(spec.dtype for spec in specs),
            accepted="operands of one dtype",
        )
    return dtype


def shapes_error(operator: str, specs: Sequence[TensorSpec], reason: str) -> GraphError:
    shapes = ", ".join(str(spec.shape) for spec in specs)
    return GraphError("shapes_mismatch", operator=operator, shapes=shapes, reason=reason)


def require_rank(operator: str, spec: TensorSpec, least: int) -> None:
    if spec.rank < least:
        raise shapes_error(operator, [spec], f"rank {least} or more is needed")


def require_axis(operator: str, attribute: str, axis: int, rank: int) -> int:
    if not 0 <= axis < rank:
        raise GraphError(
            "attribute_invalid",
            operator=operator,
            attribute=attribute,
            value=axis,
            reason=f"an axis from 0 to {rank - 1} is wanted",
        )
    return axis


def moved(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    flops: int = 0,
    scratch_bytes: int = 0,
) -> Cost:
    """The cost of an operator that reads its inputs once and writes its outputs once."""
    return Cost(
        flops=flops,
        bytes_read=sum(spec.nbytes for spec in inputs),
        bytes_written=sum(spec.nbytes for spec in outputs),
        scratch_bytes=scratch_bytes,
    )


def parallel_axes(rank: int, whole: Sequence[int] = ()) -> tuple[Split, ...]:
    """One index an axis, for operators whose one input and outputs have the same axes."""
    return tuple(
        Split(f"i{axis}", "whole" if axis in whole else "parallel", (axis,), axis)
        for axis in range(rank)
    )
