"""Reverse-mode differentiation: a graph in, the graph of its outputs and their gradients out.

Owns: the sweep, what stops a gradient, and the errors. The derivatives themselves are declared with
the operators; a composite without one is differentiated as its decomposition. Must not: know any
operator.

Only float32 and float64 values carry gradients. Integers and bools are steps of what they are made
from: their derivative is zero, as PyTorch and JAX have it. As the result is a graph like any other,
a second order comes from asking again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpugoblin.catalog import registry
from gpugoblin.catalog.building import call, filled
from gpugoblin.catalog.casting import STORAGE
from gpugoblin.catalog.spec import DTYPES, FLOATS
from gpugoblin.errors import GoblinError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.check import check
from gpugoblin.graph.expand import expand
from gpugoblin.graph.ir import Graph, Node

__all__ = ["backward", "gradient", "located"]


def gradient(
    graph: Graph, wrt: Sequence[int], *, of: Sequence[int] = (0,), seeded: bool = False
) -> Graph:
    """The graph with one more output for each of `wrt`.

    Args:
        wrt: numbers of floating inputs of the graph.
        of: numbers of the outputs whose gradient is meant; the sum of them, if several.
        seeded: the graph gets an input more for each of `of`, of that output's spec: the result is
            the product of those vectors with the Jacobian. Otherwise each of `of` must be a float
            of one element, and its seed is 1.

    Returns:
        inputs: the graph's, then the seeds. outputs: the graph's, then the gradients, each with
        the spec of its input. An input that the outputs do not depend on has zeros.

    Raises:
        GraphError: not_differentiable, with the field `value`: the number of the first value of
            the node that stops it; loss_not_scalar; over_limit when the result is too large.
    """
    check(graph)
    return _Sweep(graph, tuple(wrt), tuple(of), seeded).run()


def located(error: GoblinError, lines: Mapping[int, object]) -> GoblinError:
    """The error with the program's line of the node that stopped a gradient, where it is known.

    Args:
        lines: by number of the first value of a node, as graphs keep them beside.
    """
    value = error.fields.get("value")
    line = lines.get(value) if isinstance(value, int) else None
    if line is None or error.code != "not_differentiable":
        return error
    fields = {**error.fields, "operator": f"{error.fields['operator']} of {line}"}
    return GraphError("not_differentiable", **fields)


def backward(
    graph: Graph,
    wrt: Sequence[int],
    *,
    of: Sequence[int],
    units: Sequence[int] = (),
    keep: Sequence[int] = (),
) -> tuple[Graph, tuple[int, ...]]:
    """The graph of the gradients alone, as a part of a longer chain needs it.

    Args:
        wrt: numbers of float32 inputs of the graph.
        of: numbers of the outputs whose gradients come from behind: the result has an input more
            for each, of that output's spec. An input of the graph may stand among the outputs:
            then its gradient goes on from what comes.
        units: numbers of the float32 outputs of one element whose seed is 1.
        keep: numbers of the outputs that the result gives, too, before the gradients.

    Returns:
        (a graph whose inputs are the graph's and then the seeds and whose outputs are those of
        `keep` and then gradients, the inputs that these belong to: those of `wrt` that got any).
        The graph has no outputs, and fails `check`, where there is nothing.

    Raises:
        GraphError: as `gradient`.
    """
    check(graph)
    return _Sweep(graph, tuple(wrt), tuple(of), seeded=True, units=tuple(units)).alone(keep)


class _Sweep:
    """One differentiation. Values have two numbers: the graph's and the builder's."""

    def __init__(
        self,
        graph: Graph,
        wrt: tuple[int, ...],
        of: tuple[int, ...],
        seeded: bool,
        units: tuple[int, ...] = (),
    ) -> None:
        expanded = expand(graph, lambda operator: operator.grad is not None)
        made = [first for first, _ in graph.numbered_nodes()]
        self._graph = expanded.graph
        firsts = (first for first, _ in self._graph.numbered_nodes())
        self._origins = dict(zip(firsts, (made[one] for one in expanded.origins), strict=True))
        self._wrt = wrt
        self._of = of
        self._units = units
        self._seeded = seeded
        self._specs = self._graph.specs()
        self._builder = GraphBuilder()
        self._values: list[int] = []
        self._seeds: dict[int, int] = {}
        self._reached = set(wrt)

    def run(self) -> Graph:
        self._sweep()
        gradients = [self._gradient(value) for value in self._wrt]
        outputs = [self._values[value] for value in self._graph.outputs]
        return self._builder.build([*outputs, *gradients])

    def alone(self, keep: Sequence[int]) -> tuple[Graph, tuple[int, ...]]:
        """As `backward` says."""
        self._sweep()
        found = tuple(value for value in self._wrt if value in self._seeds)
        outputs = [self._values[self._graph.outputs[number]] for number in keep]
        outputs += [self._seeds[value] for value in found]
        if not outputs:
            return Graph((*self._graph.inputs,), (), (), ()), ()
        return self._builder.build(outputs), found

    def _sweep(self) -> None:
        self._require()
        self._copy()
        self._sow()
        nodes = list(self._graph.numbered_nodes())
        for first, node in reversed(nodes):
            self._back(first, node)

    def _require(self) -> None:
        for value in self._wrt:
            if not 0 <= value < len(self._graph.inputs):
                raise GraphError(
                    "graph_malformed", where="wrt", reason=f"there is no input {value!r}"
                )
            spec = self._graph.inputs[value]
            if spec.dtype not in FLOATS:
                reason = f"it is {spec}, and only float32 values have gradients"
                raise GraphError("not_differentiable", operator=f"input {value}", reason=reason)
        for output in (*self._of, *self._units):
            if not 0 <= output < len(self._graph.outputs):
                raise GraphError(
                    "graph_malformed", where="of", reason=f"there is no output {output!r}"
                )
            spec = self._specs[self._graph.outputs[output]]
            if spec.dtype not in FLOATS:
                reason = f"it is {spec}, and only float32 values have gradients"
                raise GraphError("not_differentiable", operator=f"output {output}", reason=reason)
            if (not self._seeded or output in self._units) and spec.count != 1:
                raise GraphError("loss_not_scalar", output=output, spec=spec)

    def _copy(self) -> None:
        """The graph itself, and which of its values depend on `wrt` through float32 values."""
        graph, builder = self._graph, self._builder
        self._values = [builder.input(spec) for spec in graph.inputs]
        self._values.extend(builder.constant(constant.array()) for constant in graph.constants)
        for first, node in graph.numbered_nodes():
            operands = tuple(self._values[value] for value in node.inputs)
            found = builder.apply(node.operator, node.version, operands, dict(node.attributes))
            self._values.extend(found)
            self._follow(first, node)

    def _follow(self, first: int, node: Node) -> None:
        depends = any(value in self._reached for value in node.inputs)
        for place, spec in enumerate(node.outputs):
            if depends and spec.dtype in STORAGE:
                reason = f"{spec.dtype} only stores numbers: round with round_{spec.dtype} instead"
                raise self._stopped(first, node.operator, reason)
            if depends and spec.dtype in FLOATS:
                self._reached.add(first + place)

    def _sow(self) -> None:
        for output in (*self._of, *self._units):
            value = self._graph.outputs[output]
            spec = self._specs[value]
            if self._seeded and output not in self._units:
                seed = self._builder.input(spec)
            else:
                seed = self._builder.constant(np.ones(spec.shape, DTYPES[spec.dtype]))
            self._add(value, seed)

    def _add(self, value: int, share: int) -> None:
        known = self._seeds.get(value)
        self._seeds[value] = share if known is None else call(self._builder, "add", known, share)

    def _back(self, first: int, node: Node) -> None:
        if not any(value in self._reached for value in node.inputs):
            return
        outputs = range(first, first + len(node.outputs))
        seeds = [self._seeds.pop(value, None) for value in outputs]
        if all(seed is None for seed in seeds):
            return
        operator = registry.get(node.operator, node.version)
        if operator.grad is None:
            raise self._stopped(first, operator.key, "it declares no derivative")
        try:
            shares = operator.grad(
                self._builder,
                [self._values[value] for value in node.inputs],
                [self._values[value] for value in outputs],
                seeds,
                node.attrs,
            )
        except GraphError as cause:
            if cause.code != "not_differentiable":
                raise
            # What stops it may stand inside a body, whose numbers mean nothing outside.
            fields = cause.fields
            raise self._stopped(first, fields["operator"], fields["reason"]) from cause
        for value, share in zip(node.inputs, shares, strict=True):
            if share is not None and value in self._reached:
                self._add(value, share)

    def _stopped(self, first: int, operator: object, reason: object) -> GraphError:
        value = self._origins[first]
        return GraphError("not_differentiable", operator=operator, reason=reason, value=value)

    def _gradient(self, value: int) -> int:
        seed = self._seeds.get(value)
        if seed is not None:
            return seed
        return filled(self._builder, self._specs[value])
