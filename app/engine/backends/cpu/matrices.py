"""Linear algebra on the processor: LAPACK in float64, matrix by matrix. Owns the kernels.

A task's matrices are small beside its products, so that twice the width costs little, and results
that are right to the last digits of float32 make the comparison of two owners' results sharp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.engine.backends.cpu.blocks import cut
from app.engine.backends.spec import Kernel
from app.engine.context import Context
from gpugoblin.catalog.ops import determinants, factoring, solving, spectral
from gpugoblin.catalog.spec import Array, Attributes, Operator

__all__ = ["MATRIX_KERNELS"]

BLOCK_ELEMENTS: Final = 256 * 1024


def _kernel(operator: Operator) -> Kernel:
    """The operator's own definition on as many matrices at once as fit the cache."""

    def run(
        reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
    ) -> None:
        shape = reads[0].shape
        each = max(1, *(array.shape[-2] * array.shape[-1] for array in reads))
        boxes = cut(shape[:-2], max(1, BLOCK_ELEMENTS // each))

        def block(number: int) -> None:
            box = boxes[number]
            found = operator.reference([array[box] for array in reads], attributes)
            for out, part in zip(writes, found, strict=True):
                out[box] = part

        context.blocks(len(boxes), block)

    return run


MATRIX_KERNELS: Final[dict[str, Kernel]] = {
    operator.key: _kernel(operator)
    for family in (determinants, factoring, solving, spectral)
    for operator in family.OPERATORS
}
