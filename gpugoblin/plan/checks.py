"""How a task's result will be checked, and what that costs the lab.

Owns: the choice between a check by projections and recomputation. Must not: check anything.

The method `product` is that of products with secret vectors: of a returned product, or of returned
factors, which are multiplied.

Results of integers are recomputed like others: equality of two owners' results is the grid's own
way to check an exact task, and needs no plan.
"""

from __future__ import annotations

from typing import Final

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spec import VerifyMethod
from gpugoblin.verify.forms import FactorForm, factor_form, product_form
from gpugoblin.verify.projection import vector_count
from gpugoblin.verify.residual import VECTORS

__all__ = ["choose_check", "factor_check_flops", "product_check_flops"]

_READINGS: Final = 3
"""How often at most the check of a factorization reads an operand or a result."""


def product_check_flops(
    dtype: str, batch: int, rows: int, inner: int, columns: int, shared_by: int
) -> int:
    """Flops of one check by projections: every vector meets the left operand, the result, and the
    right operand, whose share is paid once for `shared_by` tasks."""
    vectors = vector_count(columns, dtype)
    panel = inner * columns // max(1, shared_by)
    return 2 * batch * vectors * (rows * inner + rows * columns + panel)


def factor_check_flops(form: FactorForm) -> int:
    """Flops of one check of a factorization: each reading meets every vector twice, with numbers
    and with their squares."""
    return _READINGS * (4 * VECTORS + 2) * form.elements


def choose_check(graph: Graph, flops: int, shared_by: int) -> tuple[VerifyMethod, int]:
    """The cheaper method for a task that takes `flops`, and its flops."""
    factors = factor_form(graph)
    if factors is not None:
        check = factor_check_flops(factors)
        return ("product", check) if check < flops else ("recompute", flops)
    form = product_form(graph)
    if form is not None:
        check = product_check_flops(
            form.dtype, form.batch_count, form.rows, form.inner, form.columns, shared_by
        )
        if check < flops:
            return "product", check
    return "recompute", flops
