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

What is carried in (`carry + A B`) may be there from the first addition on: accumulators of matrix
units begin with it, and BLAS adds to it once a block. With unit roundoff u the computed sum is
carry + sum a_k b_k + sum_k d_k s_k with |d_k| <= u and s_k the k-th partial sum (N. Higham,
Accuracy and Stability of Numerical Algorithms, section 4.2), and for roundings without a common
sign the last sum is of the size u sqrt(sum_k s_k^2) (N. Higham and T. Mary, A new approach to
probabilistic rounding error analysis, 2019). Where the partial sums grow like a random walk the sum
of squares is half of K s_K^2, and the scale holds twice s_K^2 (its bracket has two parts, of which
each is as large for unrelated data): so K s_K^2 is a quarter of what the carry, whole in each of
the K partial sums, would need. Its square counts four times in the growing part. The constant part
is that of the check's own sums, where it counts once.

Sums of one sign that are added one by one to a carry more than K times larger are rounded with a
common sign: up to all of the product vanishes. `graph.numeric` does not call that honest (a product
has its own bound, an addition one rounding), and neither is it here.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["SAFETY", "UNIT_ROUNDOFF", "carry_weight", "honest_maximum", "threshold"]

UNIT_ROUNDOFF: Final = 2.0**-24
SAFETY: Final = 1.25
_GROWING: Final = 0.88
_CONSTANT: Final = 55.0
_CARRY_GROWS: Final = 4.0


def honest_maximum(inner: int) -> float:
    """Largest honest error of class `float32`, in units of the scale."""
    return UNIT_ROUNDOFF * math.hypot(_GROWING * math.sqrt(inner), _CONSTANT)


def carry_weight(inner: int) -> float:
    """How often the square of a carry counts in the square of the scale: 1 for short sums, whose
    error is the check's own, up to 4 for long ones."""
    growing, constant = _GROWING**2 * inner, _CONSTANT**2
    return (_CARRY_GROWS * growing + constant) / (growing + constant)


def threshold(inner: int, itemsize: int = 4) -> float:
    """What a result may be off, in units of the scale: 1.25 times the honest maximum.

    float64 (an `itemsize` of 8) has the same model with a unit that is 2^-29 of float32's: all of
    its check is then made in float64.
    """
    return SAFETY * honest_maximum(inner) * (2.0**-29 if itemsize == 8 else 1.0)
