"""Declaring composite operators: a decomposition, from which all the rest follows.

Owns: the making of such a declaration. A backend may claim a composite with a kernel of its own;
where it does not, the decomposition is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpugoblin.catalog.spec import (
    DTYPES,
    Array,
    Attribute,
    Attributes,
    Cost,
    Decompose,
    Gradient,
    Operator,
    Sample,
    Split,
    TensorSpec,
    Tolerance,
)
from gpugoblin.catalog.tracing import trace
from gpugoblin.catalog.widening import dtype_name, is_wide

__all__ = ["Require", "composite"]

Require = Callable[[Sequence[TensorSpec], Attributes], None]


def composite(
    name: str,
    arity: tuple[int, int],
    attributes: tuple[Attribute, ...],
    require: Require,
    decompose: Decompose,
    samples: tuple[Sample, ...],
    summary: str,
    grad: Gradient | None = None,
    whole: Sequence[tuple[int, int]] = (),
) -> Operator:
    """The declaration of a composite.

    Args:
        require: raises GraphError for inputs that do not fit, in the composite's own words.
        whole: (input, axis) that must not be cut though the primitives allow it, as an attribute
            counts on the extent.
        grad: where there is a better derivative than that of the decomposition.
    """

    def infer(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[TensorSpec, ...]:
        require(inputs, given)
        return trace(decompose, inputs, given).output_specs()

    def cost(
        inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], given: Attributes
    ) -> Cost:
        return trace(decompose, inputs, given).cost()

    def reference(inputs: Sequence[Array], given: Attributes) -> tuple[Array, ...]:
        """float32 is not rounded before the end, and not even there where inputs stand for it."""
        traced = trace(decompose, _specs(inputs), given)
        values = traced.evaluate(inputs)
        wide = any(map(is_wide, inputs))
        with np.errstate(all="ignore"):
            return tuple(
                np.array(
                    values[value],
                    values[value].dtype if wide else DTYPES[traced.specs[value].dtype],
                    order="C",
                )
                for value in traced.outputs
            )

    def propagate(
        inputs: Sequence[Array],
        errors: Sequence[Array | None],
        outputs: Sequence[Array],
        given: Attributes,
    ) -> tuple[Array | None, ...]:
        traced = trace(decompose, _specs(inputs), given)
        return traced.errors(traced.evaluate(inputs), errors)

    def splits(inputs: Sequence[TensorSpec], given: Attributes) -> tuple[Split, ...]:
        return trace(decompose, inputs, given).splits(whole)

    return Operator(
        name=name,
        version=1,
        arity=arity,
        attributes=attributes,
        infer=infer,
        cost=cost,
        reference=reference,
        splits=splits,
        tolerance=Tolerance(propagate=propagate),
        samples=samples,
        summary=summary,
        decompose=decompose,
        grad=grad,
    )


def _specs(arrays: Sequence[Array]) -> list[TensorSpec]:
    return [TensorSpec(dtype_name(array), array.shape) for array in arrays]
