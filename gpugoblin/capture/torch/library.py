"""The one place that imports torch. Owns: that import, and the names of dtypes."""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import Any, Final

from gpugoblin.errors import CaptureError

__all__ = ["HALVES", "dtype_name", "load_torch", "load_tracers", "numpy_of"]

HALVES: Final = ("float16", "bfloat16")
"""Floats that a captured program stores its numbers in and does not compute with."""


def load_torch() -> Any:
    """The module torch, imported on first use.

    Raises:
        CaptureError: `torch_missing`.
    """
    try:
        return import_module("torch")
    except ImportError as cause:
        raise CaptureError("torch_missing", reason=str(cause)) from cause


def load_tracers() -> None:
    """Imports what torch traces with. Done before a fork, it is done once and not in every child.

    A torch without that module imports it where it has it, in the child.
    """
    with contextlib.suppress(ImportError):
        import_module("torch.export._trace")


def dtype_name(dtype: object) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def numpy_of(tensor: Any) -> Any:
    """The numbers of a tensor as a C-contiguous ndarray of the same dtype.

    float16 and bfloat16 become float32, which holds all their numbers.
    """
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if dtype_name(plain.dtype) in HALVES:
        plain = plain.float()
    return plain.numpy()
