"""Do two results of one task agree?

Owns: the decision about whole results in memory: equality where the class or the dtype asks for it,
else the proven bound of the graph (`graph.numeric`), and where that one says little, how far honest
results lie apart as it was measured (`spread`). Must not: compute a result.

The proven bound decides alone where it is close: nowhere beyond `spread.LARGEST`. Elsewhere a
result must lie within the measured tolerance of its graph. One that does not is measured against
once more, on its own inputs, where an edge (the kink of a ReLU, two maxima) may be near that was
far away before. Beyond the proven bound, or beyond `_SURELY` times what was measured, it is a
mismatch; what lies between is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from gpugoblin.catalog.casting import decoded
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import VerifyError
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.numeric import agrees, allowed
from gpugoblin.verify.bias import Bias, added, is_biased, projected
from gpugoblin.verify.forms import factor_form, product_form
from gpugoblin.verify.product import ProductVerdict, check_product, project_right
from gpugoblin.verify.residual import check_factors, draw_vectors
from gpugoblin.verify.spread import Tolerance, excess, is_close_to, measure, usable, widened

__all__ = ["CompareVerdict", "compare", "judge_recomputed", "signed_error", "unless_biased"]

_SURELY: Final = 64.0
"""A distance of so many tolerances, measured on the very inputs, is no rounding."""

NumericClass = Literal["exact", "float32", "tf32", "bfloat16", "float16", "int8"]


@dataclass(frozen=True, slots=True)
class CompareVerdict:
    """The decision. `error` is the largest difference, in units of what is allowed: above 1 is off.

    Where results must be equal, `error` is 0 or infinity. `code` is "", `result_mismatch`, or
    `result_open`: the results differ where nothing close bounds an honest one, so nobody is wrong,
    and nobody's word is taken: the validator's own result is to be used. `tolerance`: what was
    measured for it, with what was known before; to be kept for the next results of this graph.
    """

    accepted: bool
    error: float
    threshold: float
    code: str = ""
    tolerance: Tolerance = ()


def _require_shapes(graph: Graph, outputs: Sequence[Array]) -> None:
    specs = graph.output_specs()
    if len(outputs) != len(specs):
        raise VerifyError("result_shape", output="count", found=len(outputs), expected=len(specs))
    for number, (spec, array) in enumerate(zip(specs, outputs, strict=True)):
        if array.dtype != DTYPES[spec.dtype] or array.shape != spec.shape:
            found = f"{array.dtype}{list(array.shape)}"
            raise VerifyError("result_shape", output=number, found=found, expected=str(spec))


def _equal(first: Array, second: Array) -> bool:
    """Equal values; NaN equals NaN, and plus and minus zero are equal."""
    first, second = decoded(first), decoded(second)
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    return bool(np.all((first == second) | (np.isnan(first) & np.isnan(second))))


def _same_bits(first: Array, second: Array) -> bool:
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    return first.tobytes() == second.tobytes()


def _are_values(arrays: Sequence[Array]) -> bool:
    """Whether every bool is the byte 0 or 1: NumPy takes 2 for true and 2 for a sum of it."""
    return not any(
        np.any(np.ascontiguousarray(array).view(np.uint8) > 1)
        for array in arrays
        if array.dtype == np.bool_
    )


def _open(one: Array, other: Array, bound: Array) -> bool:
    """Whether results within the bound differ where it says next to nothing: where it is infinite
    (beside a pole, an edge or an overflow), and in integers, whose bound is the way to the farthest
    admissible value and admits all in between and as many on the other side."""
    one, other = decoded(one), decoded(other)
    different = (one != other) & ~((one != one) & (other != other))  # NaN equals NaN
    if one.dtype.kind == "f":
        different &= np.isinf(bound)
    return bool(different.any())


def compare(
    graph: Graph,
    inputs: Sequence[Array],
    first: Sequence[Array],
    second: Sequence[Array],
    numeric_class: NumericClass,
    tolerance: Tolerance = (),
) -> CompareVerdict:
    """Compares two results, each an honest one or not. What is measured for them is measured
    without them.

    Args:
        inputs: the task's trusted inputs, from which the bound is made; not read when all outputs
            are equal or class `exact` asks for equality.
        first: the result that serves as reference.
        tolerance: what was measured for this graph before.

    Raises:
        VerifyError: `result_shape`.
        GraphError: as `graph.numeric.allowed`.
    """
    return _compared(graph, inputs, first, second, numeric_class, tolerance, None)


def _compared(
    graph: Graph,
    inputs: Sequence[Array],
    first: Sequence[Array],
    second: Sequence[Array],
    numeric_class: NumericClass,
    tolerance: Tolerance,
    own: Sequence[Array] | None,
) -> CompareVerdict:
    """The same; `own` is the validator's result, where one of the two is."""
    _require_shapes(graph, first)
    _require_shapes(graph, second)
    if not (_are_values(first) and _are_values(second)):
        return CompareVerdict(False, np.inf, 0.0, "result_mismatch")
    pairs = list(zip(first, second, strict=True))
    if numeric_class == "exact":
        good = all(_same_bits(one, other) for one, other in pairs)
        return CompareVerdict(good, 0.0 if good else np.inf, 0.0, "" if good else "result_mismatch")
    if all(_equal(one, other) for one, other in pairs):
        return CompareVerdict(True, 0.0, 1.0)
    if tolerance:
        far = excess(usable(tolerance), first, second)
        if far <= 1:
            return CompareVerdict(True, far, 1.0)
    proven = _within_bound(graph, inputs, pairs)
    if proven is not None:
        return proven
    return _within_spread(graph, inputs, first, second, tolerance, own)


def _within_bound(
    graph: Graph, inputs: Sequence[Array], pairs: Sequence[tuple[Array, Array]]
) -> CompareVerdict | None:
    """What the proven bound says; None where it admits both and more than is to be admitted."""
    worst, good, is_open, is_close = 0.0, True, False, True
    bounds = allowed(graph, inputs, [one for one, _ in pairs])
    for (one, other), bound in zip(pairs, bounds, strict=True):
        fits = agrees(other, one, bound)
        good &= bool(fits.all())
        floating = decoded(one).dtype.kind == "f"
        is_open |= not floating and _open(one, other, bound)
        is_close &= not floating or is_close_to(one, bound)
        worst = max(worst, _excess(one, other, np.asarray(bound)))
    if not good or is_open:
        code = "result_open" if good else "result_mismatch"
        return CompareVerdict(False, worst, 1.0, code)
    return CompareVerdict(True, worst, 1.0) if is_close else None


def _within_spread(
    graph: Graph,
    inputs: Sequence[Array],
    first: Sequence[Array],
    second: Sequence[Array],
    known: Tolerance,
    own: Sequence[Array] | None,
) -> CompareVerdict:
    """What measuring on these very inputs says, about results that no proven bound tells apart."""
    found = measure(graph, inputs, own)
    both = usable(widened(known, found))
    far = excess(both, first, second)
    if far <= 1:
        return CompareVerdict(True, far, 1.0, "", both)
    surely = excess(found, first, second) > _SURELY
    return CompareVerdict(False, far, 1.0, "result_mismatch" if surely else "result_open", both)


def signed_error(
    graph: Graph, own: Sequence[Array], committed: Sequence[Array], numeric_class: NumericClass,
    verdict: CompareVerdict, secret: str, tolerance: Tolerance,
) -> tuple[float, ...]:  # fmt: skip
    """The projections of an accepted result's error (`bias`); empty where there are none to speak
    of: an equal result, class `exact`, a product or a factorization, whose checks allow far less
    than a tolerance (and of vectors of equal eigenvalues, others are no error)."""
    if not secret or not verdict.accepted or numeric_class == "exact":
        return ()
    if product_form(graph) or factor_form(graph):
        return ()
    if all(map(_equal, own, committed)):
        return ()
    return projected(secret, own, committed, verdict.tolerance or tolerance)


def unless_biased(verdict: CompareVerdict, known: Bias, signed: Sequence[float]) -> CompareVerdict:
    """The verdict, or `result_biased` where the device's errors have one direction: nobody's result
    is wrong then, and this one is not to be used.

    Args:
        known: of the device's results before this one. signed: this one's projections.
    """
    if signed and is_biased(added(known, signed)):
        error, threshold = verdict.error, verdict.threshold
        return CompareVerdict(False, error, threshold, "result_biased", verdict.tolerance)
    return verdict


def _excess(one: Array, other: Array, bound: Array) -> float:
    """The largest difference in units of its bound; infinity where equality was asked."""
    one, other = decoded(one), decoded(other)
    with np.errstate(all="ignore"):
        distance = np.abs(one.astype(np.float64) - other.astype(np.float64))
        share = np.where(distance == 0, 0.0, distance / bound)
    share = np.where(np.isinf(bound) | (np.isnan(one) & np.isnan(other)), 0.0, share)
    share = np.where(np.isnan(share), np.where(one == other, 0.0, np.inf), share)
    return float(share.max(initial=0.0))


def judge_recomputed(
    graph: Graph,
    inputs: Sequence[Array],
    own: Sequence[Array],
    committed: Sequence[Array],
    numeric_class: NumericClass,
    tolerance: Tolerance = (),
) -> CompareVerdict:
    """The validator's decision: its own result is at hand.

    The proven bound of a long product is far wider than what the product check allows, so a product
    is judged by that check, with fresh secrets, as long as the validator's own result passes it;
    the bound decides only where the check cannot. So it is with factorizations; of those the check
    asks more than the catalog does, and what is only within the proven bound is open.

    Raises:
        VerifyError: `result_shape`.
    """
    _require_shapes(graph, own)
    _require_shapes(graph, committed)
    if numeric_class == "exact" or not _are_values(committed) or all(map(_equal, own, committed)):
        return _compared(graph, inputs, own, committed, numeric_class, tolerance, own)
    form = product_form(graph)
    if form is not None and DTYPES[form.dtype].kind == "f":
        hands = project_right(form, inputs[form.right])
        theirs = check_product(graph, inputs, committed[0], hands)
        ours = check_product(graph, inputs, own[0], hands)
        if ours.accepted and theirs.code != "product_undecidable":
            return _judged(theirs)
    factors = factor_form(graph)
    if factors is not None:
        vectors = draw_vectors(factors)
        theirs = check_factors(factors, inputs, committed, vectors)
        if theirs.accepted:
            return _judged(theirs)
        found = _compared(graph, inputs, own, committed, numeric_class, tolerance, own)
        ours = check_factors(factors, inputs, own, vectors)
        if found.accepted and ours.accepted and theirs.code != "product_undecidable":
            return replace(found, accepted=False, code="result_open")
        return found
    return _compared(graph, inputs, own, committed, numeric_class, tolerance, own)


def _judged(found: ProductVerdict) -> CompareVerdict:
    code = "" if found.accepted else "result_mismatch"
    return CompareVerdict(found.accepted, found.error, found.threshold, code)
