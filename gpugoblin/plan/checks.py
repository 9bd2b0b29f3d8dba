"""How a task's result will be checked, and what that costs the lab.

Owns: the choice between the product check and recomputation. Must not: check anything.

Results of integers are recomputed like others: equality of two owners' results is the grid's own
way to check an exact task, and needs no plan.
"""

from __future__ import annotations

from gpugoblin.graph.ir import Graph
from gpugoblin.plan.spec import VerifyMethod
from gpugoblin.verify.forms import product_form
from gpugoblin.verify.projection import vector_count

__all__ = ["choose_check", "product_check_flops"]


def product_check_flops(
    dtype: str, batch: int, rows: int, inner: int, columns: int, shared_by: int
) -> int:
    """Flops of one check by projections: every vector meets the left operand, the result, and the
    right operand, whose share is paid once for `shared_by` tasks."""
    vectors = vector_count(columns, dtype)
    panel = inner * columns // max(1, shared_by)
    return 2 * batch * vectors * (rows * inner + rows * columns + panel)


def choose_check(graph: Graph, flops: int, shared_by: int) -> tuple[VerifyMethod, int]:
    """The cheaper method for a task that takes `flops`, and its flops."""
    form = product_form(graph)
    if form is not None:
        check = product_check_flops(
            form.dtype, form.batch_count, form.rows, form.inner, form.columns, shared_by
        )
        if check < flops:
            return "product", check
    return "recompute", flops
