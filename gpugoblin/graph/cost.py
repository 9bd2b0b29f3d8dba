"""The cost of a graph: the sum of its nodes' costs. Owns that sum and nothing else."""

from __future__ import annotations

from gpugoblin.catalog import registry
from gpugoblin.catalog.spec import Cost, TensorSpec
from gpugoblin.graph.ir import Graph, Node

__all__ = ["cost", "node_cost"]


def cost(graph: Graph) -> Cost:
    """Flops and bytes moved of one evaluation, node by node; scratch is the largest of any node.

    An engine that fuses nodes moves fewer bytes.
    """
    specs = graph.specs()
    flops = bytes_read = bytes_written = scratch_bytes = 0
    for node in graph.nodes:
        one = node_cost(node, specs)
        flops += one.flops
        bytes_read += one.bytes_read
        bytes_written += one.bytes_written
        scratch_bytes = max(scratch_bytes, one.scratch_bytes)
    return Cost(flops, bytes_read, bytes_written, scratch_bytes)


def node_cost(node: Node, specs: tuple[TensorSpec, ...]) -> Cost:
    """The cost of one node; `specs` are those of all values of its graph."""
    operator = registry.get(node.operator, node.version)
    inputs = [specs[value] for value in node.inputs]
    return operator.cost(inputs, node.outputs, node.attrs)
