"""Error codes of the family `plan`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "plan_does_not_fit": ErrorCode(
        what="The smallest block of {operator} with output {output} needs {needed_bytes} bytes; "
        "an engine offers {limit_bytes}.",
        next_step="Lend engines with more memory, or raise the node's memory setting.",
    ),
    "plan_not_splittable": ErrorCode(
        what="{operator} with output {output} needs {needed_bytes} bytes at once and cannot be "
        "cut ({reason}); an engine offers {limit_bytes}.",
        next_step="Write the computation so that this step works on smaller arrays, or raise the "
        "node's memory setting.",
    ),
    "plan_not_a_product": ErrorCode(
        what="The graph is no product of two inputs, so it cannot be planned as one.",
        next_step="Use the general planner; report this if the node asked for it.",
    ),
    "plan_block_axis": ErrorCode(
        what="The graph cannot be cut along axis {axis}: {operator} {reason}.",
        next_step="Choose another axis, or leave the choice to the planner.",
    ),
    "plan_task_unknown": ErrorCode(
        what="The plan has {count} tasks; there is no task {index}.",
        next_step="Ask for a task that the plan has.",
    ),
    "plan_layer_does_not_fit": ErrorCode(
        what="{layer} ({operator} with output {output}) needs {needed_bytes} bytes in one task, an "
        "engine offers {limit_bytes}, and it cannot be cut into smaller tasks: {reason}.",
        next_step="Use smaller micro-batches, make this layer narrower or write it as several "
        "operators, or lend engines with more memory.",
    ),
    "plan_too_many_stages": ErrorCode(
        what="The program does not fit into {stages} stages.",
        next_step="Allow more stages, or lend engines with more memory.",
    ),
    "training_malformed": ErrorCode(
        what="The training cannot be planned: {reason}.",
        next_step="Describe every input of the loss, and give all data one number of examples.",
    ),
    "local_steps_too_many": ErrorCode(
        what="{steps} local steps of this model make a larger graph than one task may have.",
        next_step="Choose fewer local_steps: about {most} are possible with this model.",
    ),
    "local_steps_not_found": ErrorCode(
        what="No number of local steps from 2 to {most} divides {steps} steps and fits a task.",
        next_step="Choose steps with more divisors (such as a multiple of 100), more data or a "
        "smaller batch, or leave local_steps out.",
    ),
    "nothing_trainable": ErrorCode(
        what="The loss depends on no parameter that may be trained.",
        next_step="Give the model parameters with requires_grad=True, and use them in the loss.",
    ),
    "loss_not_one_number": ErrorCode(
        what="The loss is {found}, not one float32 number.",
        next_step="Return the mean over the batch, for example loss.mean().",
    ),
    "data_too_short": ErrorCode(
        what="The data has {examples} examples; one batch takes {batch}.",
        next_step="Give more data, or a smaller batch.",
    ),
    "batch_not_divisible": ErrorCode(
        what="A batch of {batch} examples cannot be cut into micro-batches of {rows}.",
        next_step="Choose a micro_batch that divides the batch.",
    ),
    "plan_too_many_tasks": ErrorCode(
        what="Cut for engines of {limit_bytes} bytes, the algorithm takes more than {most} tasks.",
        next_step="Lend engines with more memory, or raise the node's memory setting.",
    ),
    "plan_no_gain": ErrorCode(
        what="On the network this job would take {estimate_s:.3g} s, on the lab node alone "
        "{alone_s:.3g} s.",
        next_step="Run it locally, or pass force=True.",
    ),
}
