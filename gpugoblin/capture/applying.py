"""One application of an operator, with the researcher's line in every refusal.

Owns: making expression nodes from the catalog's own shape rules, and the text of operands in
errors. Must not: know what any single operator means.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpugoblin.capture.caller import Place
from gpugoblin.capture.expression import Expression, Value
from gpugoblin.catalog.attributes import normalize_attributes
from gpugoblin.catalog.registry import get
from gpugoblin.catalog.spec import AttrValue
from gpugoblin.errors import CaptureError, GraphError

__all__ = ["apply", "describe", "refused"]


def describe(values: Sequence[Value]) -> str:
    """`float32[3, 4] and int32[4]`."""
    return " and ".join(str(value.spec) for value in values)


def refused(
    operator: str, values: Sequence[Value], cause: str, fix: str, place: Place
) -> CaptureError:
    """An argument that cannot be, with what to do instead."""
    return CaptureError(
        "argument_refused",
        line=place,
        operator=operator,
        operands=describe(values),
        cause=cause,
        fix=fix,
    )


def apply(
    operator: str, operands: Sequence[Value], place: Place, /, **attributes: AttrValue
) -> Expression:
    """A node that applies a catalog operator.

    Raises:
        CaptureError: `argument_refused`, with the catalog's reason and the researcher's line.
    """
    declared = get(operator)
    try:
        canonical = dict(normalize_attributes(declared, attributes))
        specs = declared.infer([value.spec for value in operands], canonical)
    except GraphError as cause:
        raise refused(operator, operands, cause.what.rstrip("."), cause.next_step, place) from cause
    return Expression(operator, tuple(operands), specs, canonical, place=place)
