"""The table of the processor's kernels.

Owns: which kernel an operator has. Loading it proves that every primitive of the catalog has one
and that none is unknown, and that every scalar function of formulas can be evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from app.engine.backends.cpu import (
    activating,
    attending,
    chance,
    control,
    convolution,
    fourier,
    grouped,
    movement,
    normalizing,
    placing,
    pooling,
    reduce,
    scan,
    scattering,
    searching,
    selection,
    sliding,
)
from app.engine.backends.cpu.matrices import MATRIX_KERNELS
from app.engine.backends.cpu.product import matmul_into
from app.engine.backends.spec import Kernel, View
from app.engine.context import Context
from gpugoblin.catalog.primitives import PRIMITIVES
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.catalog.rules import bool_attribute
from gpugoblin.catalog.spec import Array, Attributes
from gpugoblin.errors import EngineError

__all__ = ["CHAINED", "KERNELS", "VIEWS", "require_complete"]

CHAINED: Final = frozenset({"formula@1"})
"""Operators that are computed in chains (`elementwise.py`)."""


def _matmul(
    reads: Sequence[Array], writes: Sequence[Array], attributes: Attributes, context: Context
) -> None:
    left, right = reads
    if bool_attribute(attributes, "transpose_a"):
        left = np.swapaxes(left, -1, -2)
    if bool_attribute(attributes, "transpose_b"):
        right = np.swapaxes(right, -1, -2)
    matmul_into(left, right, writes[0], context)


KERNELS: Final[Mapping[str, Kernel]] = MappingProxyType(
    {
        "attention@1": attending.attention,
        "broadcast@1": movement.broadcast,
        "cast@1": selection.cast,
        "concat@1": movement.concat,
        "cond@1": control.cond,
        "conv@1": convolution.conv,
        "flip@1": placing.flip,
        "fold@1": sliding.fold,
        "fft@1": fourier.fft,
        "gather@1": selection.gather,
        "grouped_matmul@1": grouped.grouped_matmul,
        "grouped_outer@1": grouped.grouped_outer,
        "gelu@1": activating.gelu,
        "iota@1": placing.iota,
        "layer_norm@1": normalizing.layer_norm,
        "matmul@1": _matmul,
        "pad@1": placing.pad,
        "permute@1": movement.permute,
        "pool@1": pooling.pool,
        "random@1": chance.random,
        "reduce@1": reduce.reduce,
        "reduce_arg@1": reduce.reduce_arg,
        "reshape@1": movement.reshape,
        "scan@1": control.scan,
        "scan_reduce@1": scan.scan_reduce,
        "scatter@1": scattering.scatter,
        "searchsorted@1": searching.searchsorted,
        "slice@1": movement.slice_,
        "topk@1": selection.topk,
        "update_slice@1": placing.update_slice,
        "window@1": sliding.window,
        "while_loop@1": control.while_loop,
        **MATRIX_KERNELS,
    }
)

VIEWS: Final[Mapping[str, View]] = MappingProxyType(
    {
        "broadcast@1": movement.broadcast_view,
        "flip@1": placing.flip_view,
        "permute@1": movement.permute_view,
        "reshape@1": movement.reshape_view,
        "slice@1": movement.slice_view,
    }
)


def require_complete(kernels: Mapping[str, Kernel]) -> None:
    """Requires a kernel for every primitive of the catalog, and none for what is not in it.

    Raises:
        EngineError: `kernel_missing`.
    """
    served = set(kernels) | CHAINED
    if not set(PRIMITIVES) <= served <= set(OPERATORS):
        raise EngineError(
            "kernel_missing",
            backend="cpu",
            missing=", ".join(sorted(set(PRIMITIVES) - served)) or "none",
            unknown=", ".join(sorted(served - set(OPERATORS))) or "none",
        )


require_complete(KERNELS)
