"""Which emitter an operator has on a card. Owns the table, proven against the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.engine.backends.card import (
    choosing,
    drawing,
    indexing,
    moving,
    product,
    reduction,
    scanning,
    sliding,
    windowing,
)
from app.engine.backends.card.emission import Emission, Emitter
from gpugoblin.catalog.registry import OPERATORS
from gpugoblin.errors import EngineError

__all__ = ["EMITTERS", "Emission", "require_known"]

EMITTERS: Final[Mapping[str, Emitter]] = MappingProxyType(
    {
        "broadcast@1": moving.broadcast,
        "cast@1": moving.cast,
        "concat@1": moving.concat,
        "conv@1": sliding.conv,
        "flip@1": moving.flip,
        "fold@1": windowing.fold,
        "gather@1": indexing.gather,
        "iota@1": moving.iota,
        "matmul@1": product.matmul,
        "pad@1": moving.pad,
        "permute@1": moving.permute,
        "pool@1": sliding.pool,
        "random@1": drawing.random,
        "reduce@1": reduction.reduce,
        "reduce_arg@1": choosing.reduce_arg,
        "scan_reduce@1": scanning.scan_reduce,
        "scatter@1": indexing.scatter,
        "searchsorted@1": choosing.searchsorted,
        "slice@1": moving.slice_,
        "topk@1": choosing.topk,
        "update_slice@1": moving.update_slice,
        "window@1": windowing.window,
    }
)
"""Beside `formula@1`, whose chains are fused, and `reshape@1`, which moves nothing."""


def require_known(emitters: Mapping[str, Emitter]) -> None:
    """Raises EngineError `kernel_missing` for an operator that is not in the catalog."""
    unknown = sorted(set(emitters) - set(OPERATORS))
    if unknown:
        raise EngineError(
            "kernel_missing", backend="vulkan", missing="none", unknown=", ".join(unknown)
        )


require_known(EMITTERS)
