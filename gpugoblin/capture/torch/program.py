"""A captured program: what `gg.capture` returns.

Owns: the graph with its inputs by name, running it on this processor, and putting weights back
into a module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpugoblin.capture.caller import Place
from gpugoblin.capture.torch.library import load_torch, numpy_of
from gpugoblin.capture.torch.lowering import Input
from gpugoblin.catalog.spec import DTYPES, Array
from gpugoblin.errors import CaptureError
from gpugoblin.graph.interpret import interpret
from gpugoblin.graph.ir import Graph, Names
from gpugoblin.graph.template import Template

__all__ = ["Captured"]


@dataclass(frozen=True, slots=True)
class Captured:
    """A program as a graph of the catalog.

    Args:
        graph: outputs are the program's tensors, then the buffers of `updates`.
        inputs: what each input of the graph is: `argument`, `parameter`, `buffer`, `constant`
            (with its numbers) or `key` (of random numbers), and its name.
        outputs: how many outputs of the graph each result takes: 2 for a complex one.
        lines: the researcher's line of the values that nodes make, by number.
        rung: the way that led to it. difference: its largest distance from the program, over the
            largest number of the result; None where random numbers are drawn.
        refused: what the better ways said.
        weights: the numbers of parameters and buffers when the program was captured.
        template: with `batch=True`, the graph of any batch.
        backwards: why gradients of some torch.autograd.Functions are refused, each with its line.
    """

    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]
    updates: tuple[str, ...]
    lines: Mapping[int, Place]
    rung: str
    difference: float | None
    refused: tuple[str, ...]
    label: str
    weights: Mapping[str, Array] = field(default_factory=dict)
    template: Template | None = None
    backwards: tuple[str, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the graph's inputs."""
        return tuple(one.name for one in self.inputs if one.kind == "parameter")

    @property
    def names(self) -> Names:
        """The side table of the graph."""
        return Names(
            inputs=tuple(f"{one.name}.{one.part}" if one.part else one.name for one in self.inputs),
            lines={value: place.short for value, place in self.lines.items()},
        )

    def at(self, batch: int) -> Captured:
        """The same capture for another batch: nothing is traced again.

        Raises:
            CaptureError: `batch_refused`, without `batch=True`. GraphError: over_limit.
        """
        if self.template is None:
            reason = "it was captured without batch=True"
            raise CaptureError("batch_refused", subject=self.label, reason=reason)
        return replace(self, graph=self.template.bind(batch))

    def arrays(
        self, *arguments: Any, weights: Mapping[str, Array] | None = None, key: int = 0
    ) -> list[Array]:
        """One array for each input of the graph.

        Args:
            arguments: tensors or arrays, as many as the program has tensor arguments.
            weights: replace those of the capture, by name.
            key: of random numbers.

        Raises:
            CaptureError: `weights_misfit`, also for arguments in the wrong number.
        """
        known = {**self.weights, **(weights or {})}
        names = dict.fromkeys(one.name for one in self.inputs if one.kind == "argument")
        if len(names) != len(arguments):
            reason = f"{len(names)} tensor arguments are wanted, {len(arguments)} were given"
            raise self._misfit("arguments", reason)
        given = {name: _array(one) for name, one in zip(names, arguments, strict=True)}
        found = []
        for one, spec in zip(self.inputs, self.graph.inputs, strict=True):
            if one.data is not None:
                found.append(one.data)
            elif one.kind == "key":
                found.append(np.array([key, 0], np.int64))
            else:
                source = given if one.kind == "argument" else known
                if one.name not in source:
                    raise self._misfit(one.name, "it is not there")
                array = source[one.name]
                part = np.ascontiguousarray(getattr(array, one.part)) if one.part else array
                if tuple(part.shape) != spec.shape:
                    raise self._misfit(one.name, f"its shape is {part.shape}, not {spec.shape}")
                found.append(part.astype(DTYPES[spec.dtype], copy=False))
        return found

    def run(self, *arguments: Any, weights: Mapping[str, Array] | None = None) -> tuple[Array, ...]:
        """The results on this processor by the reference interpreter, slowly.

        Raises:
            CaptureError: as `arrays`. GraphError: index_out_of_range.
        """
        found = interpret(self.graph, self.arrays(*arguments, weights=weights))
        remaining = iter(found)
        results = []
        for count in self.outputs:
            first = next(remaining)
            results.append(first if count == 1 else first + 1j * next(remaining))
        return tuple(results)

    def load_into(self, module: Any, weights: Mapping[str, Array] | None = None) -> None:
        """Writes weights into a module's parameters and buffers, all or none.

        Raises:
            CaptureError: `weights_misfit`, with the name; nothing has been written then.
        """
        torch = load_torch()
        chosen = self.weights if weights is None else weights
        state = {
            **dict(module.named_buffers(remove_duplicate=False)),
            **dict(module.named_parameters(remove_duplicate=False)),
        }
        for name, array in chosen.items():
            if name not in state:
                raise self._misfit(name, "it has none of that name", type(module).__name__)
            if tuple(state[name].shape) != tuple(array.shape):
                reason = f"shape {tuple(array.shape)} does not fit {tuple(state[name].shape)}"
                raise self._misfit(name, reason, type(module).__name__)
        with torch.no_grad():
            for name, array in chosen.items():
                state[name].copy_(torch.from_numpy(np.array(array)))

    def _misfit(self, name: str, reason: str, subject: str = "") -> CaptureError:
        return CaptureError(
            "weights_misfit", subject=subject or self.label, name=name, reason=reason
        )

    def __str__(self) -> str:
        gap = "random" if self.difference is None else f"{self.difference:.1e} from eager"
        return f"{self.label}: {len(self.graph.nodes)} operators by {self.rung}, {gap}"


def _array(given: Any) -> Array:
    return np.asarray(given) if not hasattr(given, "detach") else np.asarray(numpy_of(given))


def weights_of(state: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Array]:
    """Copies of the tensors that the graph's parameters and buffers are."""
    wanted = {one.name for one in inputs if one.kind in ("parameter", "buffer")}
    return {name: np.array(numpy_of(state[name])) for name in wanted if name in state}
