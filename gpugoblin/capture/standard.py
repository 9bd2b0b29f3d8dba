"""The names of the Python array API standard, and which of them can be said here.

Owns: the list of version 2024.12, by its own sections, and the answer for each name. Read by the
page of coverage and by its test. Source: data-apis.org/array-api/2024.12/API_specification.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from gpugoblin.capture import refusals
from gpugoblin.catalog.spec import DTYPES

__all__ = ["SECTIONS", "UNSUPPORTED_DTYPES", "reason"]

SECTIONS: Final = {
    "Constants": "e inf nan newaxis pi",
    "Creation functions": """
        arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones
        ones_like tril triu zeros zeros_like
    """,
    "Data type functions": """
        astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
    """,
    "Data types": """
        bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
    """,
    "Elementwise functions": """
        abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
        bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
        divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf
        isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or
        logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
        reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
    """,
    "Indexing functions": "take take_along_axis",
    "Inspection": "__array_namespace_info__ __array_api_version__",
    "Linear algebra functions": "matmul matrix_transpose tensordot vecdot",
    "Manipulation functions": """
        broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape
        roll squeeze stack tile unstack
    """,
    "Searching functions": "argmax argmin count_nonzero nonzero searchsorted where",
    "Set functions": "unique_all unique_counts unique_inverse unique_values",
    "Sorting functions": "argsort sort",
    "Statistical functions": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "Utility functions": "all any diff",
    "Linear algebra extension (linalg)": """
        linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh linalg.eigvalsh
        linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
        linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve
        linalg.svd linalg.svdvals linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
    """,
    "Fourier transform extension (fft)": """
        fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift
        fft.ihfft fft.irfft fft.irfftn fft.rfft fft.rfftfreq fft.rfftn
    """,
}
"""Section -> its names; those of an extension with its namespace."""

UNSUPPORTED_DTYPES: Final = "arrays of it are refused, with the conversion that helps"


def reason(name: str) -> str:
    """Why a name of the standard cannot be said here; empty where it can.

    Raises:
        LookupError: the name is not even there.
    """
    namespace, _, plain = name.rpartition(".")
    module = import_module("gpugoblin")
    holder = getattr(module, namespace) if namespace else module
    if not hasattr(holder, plain):
        raise LookupError(f"gg.{name} is not there")
    table = {"": refusals.REFUSED, "linalg": refusals.LINALG, "fft": refusals.FFT}[namespace]
    if plain in table:
        return table[plain][0]
    if name in SECTIONS["Data types"].split():
        return "" if name in DTYPES else UNSUPPORTED_DTYPES
    return ""
