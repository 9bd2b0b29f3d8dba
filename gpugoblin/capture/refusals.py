"""Functions of the Python array API standard that cannot be said in the catalog.

Owns: each of them with its reason and with what helps. Calling one raises `CaptureError` with the
code `function_refused` and the researcher's line; nothing is computed behind their back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from gpugoblin.capture.caller import caller
from gpugoblin.errors import CaptureError

__all__ = [
    "FFT", "LINALG", "REFUSED", "imag", "nonzero", "refusal", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

_COUNT: Final = "the shape of the result depends on numbers that are only known later"
_COMPLEX: Final = "there is no complex dtype"
_PAIRS: Final = "Pass real and imaginary part as two arrays, or compute it with NumPy."
_NUMPY: Final = "Take the numbers first, x.compute(), and use NumPy's."

REFUSED: Final = {
    "imag": (_COMPLEX, "The imaginary part of real numbers is gg.zeros_like(x)."),
    "nonzero": (_COUNT, "Keep the shape with gg.where(condition, x, 0), or use gg.topk."),
    "unique_all": (_COUNT, _NUMPY),
    "unique_counts": (_COUNT, "Count with gg.searchsorted against known values, or NumPy's."),
    "unique_inverse": (_COUNT, "Use gg.searchsorted against known values."),
    "unique_values": (_COUNT, _NUMPY),
}
"""Name -> reason, and what helps."""

LINALG: Final[dict[str, tuple[str, str]]] = {}
"""The same for `gg.linalg`."""

FFT: Final = {
    name: (_COMPLEX, _PAIRS)
    for name in (
        "fft",
        "fftn",
        "hfft",
        "ifft",
        "ifftn",
        "ihfft",
        "irfft",
        "irfftn",
        "rfft",
        "rfftn",
    )
}
"""The same for `gg.fft`."""


def refusal(name: str, reason: str, fix: str) -> Callable[..., NoReturn]:
    """A function that says why it cannot be said."""

    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise CaptureError(
            "function_refused", line=caller(), function=f"gg.{name}", reason=reason, fix=fix
        )

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Cannot be said: {reason}. {fix}"
    return refuse


imag = refusal("imag", *REFUSED["imag"])
nonzero = refusal("nonzero", *REFUSED["nonzero"])
unique_all = refusal("unique_all", *REFUSED["unique_all"])
unique_counts = refusal("unique_counts", *REFUSED["unique_counts"])
unique_inverse = refusal("unique_inverse", *REFUSED["unique_inverse"])
unique_values = refusal("unique_values", *REFUSED["unique_values"])
