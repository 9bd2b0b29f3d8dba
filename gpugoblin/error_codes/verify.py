"""Error codes of the family `verify`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "product_mismatch": ErrorCode(
        what="The returned product is off by {error:.3g} where at most {threshold:.3g} can be "
        "rounding: it was refused.",
        next_step="Nothing is lost; the validator decides and the task is computed again.",
    ),
    "product_undecidable": ErrorCode(
        what="A product with operands that are not finite, or too large or small to project, "
        "cannot be checked by projections.",
        next_step="Nothing to do; the validator recomputes such tasks.",
    ),
    "not_a_product": ErrorCode(
        what="The product check was asked for a graph that is no product of two inputs.",
        next_step="Verify this task by recomputing it; report this if a plan asked for it.",
    ),
    "result_mismatch": ErrorCode(
        what="Two results of one task differ by {error:.3g} where {threshold:.3g} is allowed.",
        next_step="Nothing is lost; the validator decides.",
    ),
    "result_shape": ErrorCode(
        what="Output {output} of a task has {found} where its graph declares {expected}.",
        next_step="Nothing is lost; the task is computed again by someone else.",
    ),
    "item_kills_worker": ErrorCode(
        what="The worker process ended {deaths} times while it did the item {work} "
        "({kind}); the last words were: {reason}.",
        next_step="Look at the node's log; free memory or lower the node's memory setting.",
    ),
    "worker_does_not_start": ErrorCode(
        what="The {kind} worker ended {times} times before it began anything; the last words were: "
        "{reason}.",
        next_step="Look at the node's log; free memory, or repair the installation, and try again.",
    ),
    "worker_protocol": ErrorCode(
        what="A frame between the node and its worker is malformed: {reason}.",
        next_step="Restart the node; all its parts must be of one version.",
    ),
    "pool_stopped": ErrorCode(
        what="The node is stopping, the item {work} was not done.",
        next_step="Start the node again; it goes on where it was.",
    ),
    "item_too_large": ErrorCode(
        what="The task needs {needed_bytes} bytes in the engine; the node offers {limit_bytes}.",
        next_step="Raise the node's memory setting, or split the job into smaller blocks.",
    ),
    "item_failed": ErrorCode(
        what="An item of the node's worker failed: {reason}.",
        next_step="Look at the node's log and report this with it.",
    ),
}
