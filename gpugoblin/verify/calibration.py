"""How large an honest rounding error looks through the projections: measured, then frozen.

Owns: the calibrated maxima per numeric class and inner length, and the threshold made from them.
Must not: look at data. The figures come from `benchmarks/verify_product.py --calibrate`.

The honest worst case is not a BLAS but a device that sums one product after the other in float32
(one multiply and one add, both rounded): its error grows with the square root of the inner length.
The check's own float32 sums add a part that does not grow; the two are independent, so their
squares add. In units of the unit roundoff 2^-24 and of the scale (`product.ProductCheck`), no error
of that device on normal, uniform, integer-valued, sparse and cancelling data was larger, over tiles
of up to 4096 columns. Data with very long tails summed in that naive order can be; then the
validator decides, and nothing is lost.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["SAFETY", "UNIT_ROUNDOFF", "honest_maximum", "threshold"]

UNIT_ROUNDOFF: Final = 2.0**-24
SAFETY: Final = 1.25
_GROWING: Final = 0.88
_CONSTANT: Final = 55.0


def honest_maximum(inner: int) -> float:
    """Largest honest error of class `float32`, in units of the scale."""
    return UNIT_ROUNDOFF * math.hypot(_GROWING * math.sqrt(inner), _CONSTANT)


def threshold(inner: int, itemsize: int = 4) -> float:
    """What a result may be off, in units of the scale: 1.25 times the honest maximum.

    float64 (an `itemsize` of 8) has the same model with a unit that is 2^-29 of float32's: all of
    its check is then made in float64.
    """
    return SAFETY * honest_maximum(inner) * (2.0**-29 if itemsize == 8 else 1.0)
