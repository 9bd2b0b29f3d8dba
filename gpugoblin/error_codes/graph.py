"""Error codes of the family `graph`."""

from __future__ import annotations

from gpugoblin.error_codes.spec import ErrorCode

__all__ = ["CODES"]

CODES: dict[str, ErrorCode] = {
    "unknown_operator": ErrorCode(
        what="The catalog has no operator {operator}.",
        next_step="Use an operator of the catalog, or update the side that does not know it.",
    ),
    "arity_wrong": ErrorCode(
        what="{operator} got {count} inputs; it takes {least} to {most}.",
        next_step="Pass the number of inputs that the operator declares.",
    ),
    "attribute_unknown": ErrorCode(
        what="{operator} has no attribute {attribute}.",
        next_step="Remove it, or check its spelling against the operator table.",
    ),
    "attribute_missing": ErrorCode(
        what="{operator} needs the attribute {attribute}.",
        next_step="Pass it; the operator table says what it means.",
    ),
    "attribute_invalid": ErrorCode(
        what="The attribute {attribute} of {operator} is {value}: {reason}.",
        next_step="Pass a value that the operator allows.",
    ),
    "dtype_unsupported": ErrorCode(
        what="{operator} does not take {dtypes}; it takes {accepted}.",
        next_step="Cast the operands first.",
    ),
    "shapes_mismatch": ErrorCode(
        what="{operator} cannot combine the shapes {shapes}: {reason}.",
        next_step="Reshape, permute or broadcast the operands so that they fit.",
    ),
    "empty_reduction": ErrorCode(
        what="{operator} with {function} has no value over an axis of extent 0 (shape {shape}).",
        next_step="Leave the empty part out, or reduce with sum, prod, any or all.",
    ),
    "over_limit": ErrorCode(
        what="{where} has {what} {value}; the limit is {limit}.",
        next_step="Split the computation into smaller graphs, or send large constants as inputs.",
    ),
    "graph_malformed": ErrorCode(
        what="The graph is malformed at {where}: {reason}.",
        next_step="Build the graph with the builder; a rewrite that made it has a defect.",
    ),
    "formula_malformed": ErrorCode(
        what="The formula is malformed at node {node}: {reason}.",
        next_step="Build the formula with the formula builder.",
    ),
    "graph_bytes_malformed": ErrorCode(
        what="The bytes of a graph are malformed at offset {offset}: {reason}.",
        next_step="Fetch the graph again; if it stays so, the sender is defective.",
    ),
    "not_a_template": ErrorCode(
        what="Two graphs are not one with a batch axis: {where}: {reason}.",
        next_step="Write the program so that only extents follow the batch, each by a line.",
    ),
    "graph_inputs_mismatch": ErrorCode(
        what="Input {index} of the graph is {got}; it must be {expected}.",
        next_step="Pass one array for each input, with exactly its dtype and shape.",
    ),
    "graph_outputs_mismatch": ErrorCode(
        what="The outputs to compare with are {got}; the graph gives {expected}.",
        next_step="Pass the outputs of the same graph.",
    ),
    "index_out_of_range": ErrorCode(
        what="{operator} met the index {index}; axis {axis} has the extent {extent}.",
        next_step="Give indices from 0 to the extent less 1; negative ones do not wrap.",
    ),
    "not_differentiable": ErrorCode(
        what="{operator} has no gradient: {reason}.",
        next_step="Take the gradient by another value, or replace the operator by one that has a "
        "gradient.",
    ),
    "loss_not_scalar": ErrorCode(
        what="Output {output} is {spec}; a gradient without seeds needs a floating scalar.",
        next_step="Reduce the output to one number, or ask for a graph that takes seeds.",
    ),
}
