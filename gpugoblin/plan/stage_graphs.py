"""The graphs of one stage: forward, and backward with the forward inside.

Owns: the step from a span of the line to graphs and to what their inputs and outputs mean. Must
not: choose spans.

The gradient of an activation that several stages read is carried: the last reader's backward gives
its share, each earlier one adds its own to what comes and passes the sum on, as a sweep over the
whole program does and in the same order. So a gradient crosses a cut once, nobody has to add
anything, and the sum is the unsplit one to the bit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gpugoblin.graph.grad import backward as backward_of
from gpugoblin.graph.ir import Graph, Node
from gpugoblin.plan.spine import Line

__all__ = ["Port", "StageGraphs", "stage_graphs"]


@dataclass(frozen=True, slots=True)
class Port:
    """What an input or an output of a stage's graph is.

    Args:
        kind: `input` and `output`: of the program, by its number there. `activation`: a value that
            crosses a cut, by its value number in the program. `gradient`: of the loss by that
            activation. `weight_gradient`: of the loss by the program's input of that number, this
            stage's share of it.
    """

    kind: Literal["input", "output", "activation", "gradient", "weight_gradient"]
    number: int


@dataclass(frozen=True, slots=True)
class StageGraphs:
    """Args:
    forward: from `inputs` to `outputs`.
    backward: from `backward_inputs` to `backward_outputs`; None where nothing has a gradient.
    """

    forward: Graph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    backward: Graph | None = None
    backward_inputs: tuple[Port, ...] = ()
    backward_outputs: tuple[Port, ...] = ()


def stage_graphs(
    line: Line,
    start: int,
    stop: int,
    *,
    weights: Collection[int],
    loss: int | None,
    reached: Collection[int],
    coming: Collection[int] | None = None,
) -> StageGraphs:
    """The graphs of the places `start` to `stop` (not included) of the line.

    Args:
        weights: the program's inputs that get gradients.
        loss: number of the program's output whose gradient is meant; None for forward alone.
        reached: values that depend on weights through float32.
        coming: activations whose gradient later stages give; None: of all that can have one.
    """
    program = line.graph
    own, passed = _crossing(line, start, stop)
    made = [
        number for number, value in enumerate(program.outputs) if _makes(line, value, start, stop)
    ]
    outputs = [Port("activation", value) for value in own]
    outputs += [Port("output", number) for number in made]
    forward, inputs = _forward(line, start, stop, [*own, *(program.outputs[n] for n in made)])
    found = StageGraphs(forward, inputs, tuple(outputs))
    if loss is None:
        return found
    wanted = [*own, *passed]
    seeds = [value for value in wanted if value in (reached if coming is None else coming)]
    return _with_backward(found, line, seeds, weights, loss, reached)


def _with_backward(
    made: StageGraphs,
    line: Line,
    seeds: list[int],
    weights: Collection[int],
    loss: int,
    reached: Collection[int],
) -> StageGraphs:
    forward, inputs, outputs = made.forward, made.inputs, made.outputs
    wrt = [
        place
        for place, port in enumerate(inputs)
        if (port.number in weights if port.kind == "input" else port.number in reached)
    ]
    has_loss = Port("output", loss) in outputs
    if not wrt or not (seeds or has_loss):
        return made
    values = {port.number: forward.outputs[place] for place, port in enumerate(outputs)
              if port.kind == "activation"}  # fmt: skip
    values |= {port.number: place for place, port in enumerate(inputs)
               if port.kind == "activation" and port.number in seeds}  # fmt: skip
    ends = [*(values[value] for value in seeds), *forward.outputs]
    whole = Graph(forward.inputs, forward.constants, forward.nodes, tuple(ends))
    last = not any(port.kind == "activation" for port in outputs)
    keep = range(len(seeds), len(ends)) if last else ()
    unit = (len(seeds) + outputs.index(Port("output", loss)),) if has_loss else ()
    graph, got = _backward(whole, tuple(wrt), len(seeds), unit, tuple(keep))
    if not got:
        return made
    results = [outputs[place - len(seeds)] for place in keep]
    for place in got:
        port = inputs[place]
        kind: Literal["weight_gradient", "gradient"]
        kind = "weight_gradient" if port.kind == "input" else "gradient"
        results.append(Port(kind, port.number))
    return StageGraphs(
        forward,
        inputs,
        outputs,
        graph,
        (*inputs, *(Port("gradient", value) for value in seeds)),
        tuple(results),
    )


@lru_cache(maxsize=64)
def _backward(
    whole: Graph, wrt: tuple[int, ...], seeds: int, units: tuple[int, ...], keep: tuple[int, ...]
) -> tuple[Graph, tuple[int, ...]]:
    """Models repeat their layers, and a search its questions: equal stages are made once."""
    return backward_of(whole, wrt, of=range(seeds), units=units, keep=keep)


def _makes(line: Line, value: int, start: int, stop: int) -> bool:
    """Whether a program's output is this stage's: inputs and constants are the last one's."""
    place = line.makers.get(value, len(line.spine) - 1)
    return start <= place < stop


def _crossing(line: Line, start: int, stop: int) -> tuple[list[int], list[int]]:
    """Values that the span makes for later stages, and those that it reads beside them."""
    program = line.graph
    own: list[int] = []
    passed: set[int] = set()
    for place in range(start, stop):
        number = line.spine[place]
        first = line.firsts[number]
        made = range(first, first + len(program.nodes[number].outputs))
        own += [value for value in made if line.last_readers.get(value, -1) >= stop]
        passed |= {
            value
            for value in line.reads[place]
            if line.makers.get(value, start) < start and line.last_readers[value] >= stop
        }
    return sorted(own), sorted(passed)


def _forward(
    line: Line, start: int, stop: int, wanted: list[int]
) -> tuple[Graph, tuple[Port, ...]]:
    """The graph of a span, its nodes in the program's order."""
    program = line.graph
    count = len(program.inputs)
    outside = count + len(program.constants)
    numbers = set(line.spine[start:stop]).union(*line.takes[start:stop])
    inner = {
        value
        for number in numbers
        for value in range(
            line.firsts[number], line.firsts[number] + len(program.nodes[number].outputs)
        )
    }
    read = {value for number in numbers for value in program.nodes[number].inputs} | set(wanted)
    activations = sorted(value for value in read - inner if value >= outside)
    given = sorted(value for value in read if value < count)
    constants = sorted(value for value in read if count <= value < outside)
    specs = program.specs()
    renamed = {value: place for place, value in enumerate([*activations, *given, *constants])}
    following = len(renamed)
    nodes: list[Node] = []
    for number in sorted(numbers):
        node = program.nodes[number]
        for place in range(len(node.outputs)):
            renamed[line.firsts[number] + place] = following + place
        following += len(node.outputs)
        operands = tuple(renamed[value] for value in node.inputs)
        nodes.append(Node(node.operator, node.version, node.attributes, operands, node.outputs))
    graph = Graph(
        inputs=tuple(specs[value] for value in (*activations, *given)),
        constants=tuple(program.constants[value - count] for value in constants),
        nodes=tuple(nodes),
        outputs=tuple(renamed[value] for value in wanted),
    )
    ports = [Port("activation", value) for value in activations]
    return graph, (*ports, *(Port("input", value) for value in given))
