"""Declaring operators that only move elements.

Owns: what they share: any dtype, no rounding, errors that travel with the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.catalog.rules import moved
from gpugoblin.catalog.spec import (
    Array,
    Attribute,
    Attributes,
    Cost,
    Gradient,
    Infer,
    Operator,
    Sample,
    SplitRule,
    TensorSpec,
    Tolerance,
)
from gpugoblin.errors import GraphError

__all__ = ["Move", "invalid", "moving"]

Move = Callable[[Sequence[Array], Attributes], Array]


def _cost(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return moved(inputs, outputs)


def _free(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], attributes: Attributes
) -> Cost:
    return Cost(0, 0, 0)


def moving(
    name: str,
    attributes: tuple[Attribute, ...],
    infer: Infer,
    move: Move,
    splits: SplitRule,
    samples: tuple[Sample, ...],
    summary: str,
    grad: Gradient,
    arity: tuple[int, int] = (1, 1),
) -> Operator:
    def reference(inputs: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
        return (np.array(move(inputs, given), order="C"),)

    def propagate(
        inputs: Sequence[Array],
        errors: Sequence[Array | None],
        outputs: Sequence[Array],
        given: Attributes,
    ) -> tuple[Array | None, ...]:
        if all(error is None for error in errors):
            return (None,)
        full = [
            np.broadcast_to(0.0 if error is None else error, array.shape)
            for error, array in zip(errors, inputs, strict=True)
        ]
        return (move(full, given),)

    return Operator(
        name=name,
        version=1,
        arity=arity,
        attributes=attributes,
        infer=infer,
        cost=_free if name == "reshape" else _cost,
        reference=reference,
        splits=splits,
        tolerance=Tolerance(propagate=propagate),
        samples=samples,
        summary=summary,
        grad=grad,
    )


def invalid(operator: str, attribute: str, value: object, reason: str) -> GraphError:
    return GraphError(
        "attribute_invalid", operator=operator, attribute=attribute, value=value, reason=reason
    )
