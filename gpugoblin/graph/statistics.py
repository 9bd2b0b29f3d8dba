"""What a graph costs, in numbers. Owns: gathering them. Must not: estimate times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gpugoblin.graph.cost import cost
from gpugoblin.graph.ir import Graph
from gpugoblin.graph.memory import bound

__all__ = ["Statistics", "statistics"]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Args:
    nodes: by operator, the most frequent first.
    flops: of one evaluation.
    bytes_moved: read and written, node by node; an engine that fuses nodes moves fewer.
    input_bytes, output_bytes, constant_bytes: of all of them together.
    peak_bytes: an upper bound on the memory of one evaluation, inputs and outputs included.
    """

    nodes: tuple[tuple[str, int], ...]
    flops: int
    bytes_moved: int
    input_bytes: int
    output_bytes: int
    constant_bytes: int
    peak_bytes: int

    @property
    def node_count(self) -> int:
        return sum(count for _, count in self.nodes)

    def __str__(self) -> str:
        operators = ", ".join(f"{count} {name}" for name, count in self.nodes)
        return "\n".join(
            [
                f"{self.node_count} nodes: {operators}" if self.nodes else "no nodes",
                f"{_si(self.flops)}flop, {_si(self.bytes_moved)}B moved",
                f"{_si(self.input_bytes)}B in, {_si(self.output_bytes)}B out, "
                f"{_si(self.constant_bytes)}B of constants",
                f"{_si(self.peak_bytes)}B of memory at most",
            ]
        )


def statistics(graph: Graph) -> Statistics:
    """The numbers of a graph that passes `check`."""
    found = cost(graph)
    counts = Counter(node.operator for node in graph.nodes)
    return Statistics(
        nodes=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        flops=found.flops,
        bytes_moved=found.bytes_read + found.bytes_written,
        input_bytes=sum(spec.nbytes for spec in graph.inputs),
        output_bytes=sum(spec.nbytes for spec in graph.output_specs()),
        constant_bytes=sum(len(constant.data) for constant in graph.constants),
        peak_bytes=bound(graph),
    )


def _si(number: int) -> str:
    """Three digits and a prefix: `12.3 M`."""
    value, prefixes = float(number), ["", "k", "M", "G", "T", "P", "E"]
    while value >= 1000 and len(prefixes) > 1:
        value, prefixes = value / 1000, prefixes[1:]
    digits = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{digits} {prefixes[0]}"
