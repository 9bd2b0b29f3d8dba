"""Outputs as safetensors containers.

Owns: the one way in which tensors leave the store as a file of a format that others read. Small
ones only: the library wants all tensors in memory. Large results are written tile by tile by the
lab node's workers. bfloat16 is not taken: the library's NumPy half has no such dtype.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from gpugoblin.blobs.coding import TENSOR_DTYPES, Array
from gpugoblin.errors import StoreError

__all__ = ["load_tensors", "save_tensors"]


def save_tensors(tensors: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors container of C-order little-endian tensors."""
    plain = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # ascontiguousarray makes a scalar one-dimensional; the container must keep its shape.
    plain = {name: array.reshape(tensors[name].shape) for name, array in plain.items()}
    return safetensors.numpy.save(plain, dict(metadata) if metadata else None)


def load_tensors(data: bytes, where: str = "a container") -> dict[str, Array]:
    """The tensors of a container; only dtypes that graphs have.

    Raises:
        StoreError: `array_unreadable`, `array_dtype`.
    """
    try:
        tensors: dict[str, Array] = safetensors.numpy.load(data)
    except (SafetensorError, KeyError, ValueError) as cause:
        raise StoreError(
            "array_unreadable", path=where, kind="safetensors", reason=str(cause)
        ) from cause
    for array in tensors.values():
        if array.dtype not in TENSOR_DTYPES.values():
            raise StoreError(
                "array_dtype", path=where, dtype=str(array.dtype), known=", ".join(TENSOR_DTYPES)
            )
    return tensors
