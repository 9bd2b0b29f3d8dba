"""Programs as attributes of operators: running them, and what follows from their nodes.

Owns: the step from a body to a trace of primitives, which has its cost, its values and its error
bounds, and the wording of what does not fit. Must not: know one operator from another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from gpugoblin.catalog.program import Constant, Graph, Node
from gpugoblin.catalog.spec import FLOATS, Attributes, BodyBuilder, Builder, Cost, TensorSpec
from gpugoblin.errors import GraphError

if TYPE_CHECKING:
    from gpugoblin.catalog.tracing import Trace

__all__ = [
    "MOST_STEPS",
    "body_attribute",
    "body_builder",
    "body_cost",
    "floats",
    "invalid",
    "program_of",
    "replay",
    "require_specs",
    "traced",
]

MOST_STEPS: Final = 1 << 20
"""No loop may make more steps."""


def replay(body: Graph, builder: Builder, operands: Sequence[int]) -> tuple[int, ...]:
    """The body's nodes on a builder: the numbers of its outputs there."""
    values = list(operands)
    values.extend(builder.constant(constant.array()) for constant in body.constants)
    for node in body.nodes:
        inputs = [values[value] for value in node.inputs]
        values.extend(builder.add_many(node.operator, inputs, **node.attrs))
    return tuple(values[value] for value in body.outputs)


def program_of(
    inputs: Sequence[TensorSpec],
    write: Callable[[Builder, Sequence[int]], tuple[int, ...]],
) -> Graph:
    """The body that `write` makes of primitives: for decompositions, whose builder makes none."""
    from gpugoblin.catalog.tracing import trace

    found = trace(lambda builder, values, given: write(builder, values), inputs, {})
    numbers = {value: value for value in range(len(inputs))}
    constants, nodes = [], []
    for value, array in found.constants.items():
        numbers[value] = len(numbers)
        data = np.ascontiguousarray(array).tobytes()
        constants.append(Constant(found.specs[value], data))
    for step in found.steps:
        operands = tuple(numbers[value] for value in step.inputs)
        outputs = tuple(found.specs[value] for value in step.results)
        given = tuple(sorted(step.attributes.items()))
        nodes.append(Node(step.operator.name, step.operator.version, given, operands, outputs))
        numbers.update((value, len(numbers) + n) for n, value in enumerate(step.results))
    results = tuple(numbers[value] for value in found.outputs)
    return Graph(tuple(inputs), tuple(constants), tuple(nodes), results)


def traced(body: Graph) -> Trace:
    """The body in primitives."""
    # Both know all operators, of which those with bodies are some.
    from gpugoblin.catalog.registry import get
    from gpugoblin.catalog.tracing import trace

    def write(builder: Builder, inputs: Sequence[int], given: Attributes) -> tuple[int, ...]:
        values = list(inputs)
        values.extend(builder.constant(constant.array()) for constant in body.constants)
        for node in body.nodes:
            operands = [values[value] for value in node.inputs]
            operator = get(node.operator, node.version)
            if operator.decompose is not None:
                values.extend(operator.decompose(builder, operands, node.attrs))
            else:
                values.extend(builder.add_many(node.operator, operands, **node.attrs))
        return tuple(values[value] for value in body.outputs)

    return trace(write, body.inputs, {})


def body_cost(body: Graph) -> Cost:
    """One run of the body. Scratch has room for everything that it makes, aligned, and for its
    inputs and outputs and constants."""
    found = traced(body)
    one = found.cost()
    kept = [*body.inputs, *body.output_specs(), *(constant.spec for constant in body.constants)]
    room = sum(spec.nbytes for spec in kept) + 64 * (len(found.specs) + len(kept))
    return Cost(one.flops, one.bytes_read, one.bytes_written, one.scratch_bytes + room)


def body_attribute(attributes: Attributes, name: str) -> Graph:
    value = attributes[name]
    if not isinstance(value, Graph):
        raise TypeError(f"attribute of kind graph expected, got {type(value).__name__}")
    return value


def body_builder(builder: Builder) -> BodyBuilder:
    """The builder as one that can make bodies; decompositions have no such."""
    if not isinstance(builder, BodyBuilder):
        raise TypeError("bodies cannot be made inside of a decomposition")
    return builder


def floats(specs: Sequence[TensorSpec]) -> list[int]:
    """The places of those that carry gradients."""
    return [place for place, spec in enumerate(specs) if spec.dtype in FLOATS]


def invalid(operator: str, attribute: str, value: object, reason: str) -> GraphError:
    return GraphError(
        "attribute_invalid", operator=operator, attribute=attribute, value=value, reason=reason
    )


def require_specs(
    operator: str, attribute: str, got: Sequence[TensorSpec], wanted: Sequence[TensorSpec]
) -> None:
    """Requires that a body takes, or gives, exactly what is wanted."""
    if tuple(got) != tuple(wanted):
        found, expected = (", ".join(map(str, specs)) or "nothing" for specs in (got, wanted))
        raise invalid(operator, attribute, found, f"a body with {expected} is wanted")
