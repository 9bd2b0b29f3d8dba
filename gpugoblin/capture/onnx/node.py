"""One node of an ONNX model, as its handler sees it.

Owns: the reading of attributes and inputs, and the refusals, which name the node and the line that
called the model. Must not: know any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from gpugoblin.capture.array import Array
from gpugoblin.capture.caller import Place
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.errors import CaptureError
from gpugoblin.graph.interpret import interpret

__all__ = ["MAX_KNOWN_ELEMENTS", "Call", "Handler", "known_numbers"]

MAX_KNOWN_ELEMENTS: Final = 1 << 16
"""Shapes, axes and the like are computed here, when the model is read; never data."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node with its inputs.

    Args:
        inputs: None for one that was left out.
        attributes: as Python values; tensors as ndarrays, graphs as they are.
        opset: the version of the default domain that the model asks for.
        outputs: how many outputs are wanted, up to the last one that has a name.
        name: for messages: `Conv "conv1"`.
        run: evaluates the body of an If.
    """

    operator: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any]
    opset: int
    outputs: int
    name: str
    place: Place
    run: Callable[[Any], tuple[Array, ...]] = field(repr=False)

    def array(self, number: int) -> Array:
        """Input `number`, which must be there."""
        found = self.optional(number)
        if found is None:
            raise self.refused(f"input {number} is missing", "Export the model again.")
        return found

    def optional(self, number: int) -> Array | None:
        """Input `number`, or None."""
        return self.inputs[number] if number < len(self.inputs) else None

    def numbers(self, number: int) -> NumpyArray:
        """The numbers of an input that shapes depend on."""
        found = known_numbers(self.array(number))
        if found is None:
            raise self.refused(
                f"input {number} decides over shapes, and is only known later",
                "Pass it as an ndarray, or make it a constant of the model.",
            )
        return found

    def ints(self, name: str, number: int | None = None) -> list[int] | None:
        """Integers that are an attribute or, since some version, an input; None for neither."""
        if name in self.attributes:
            return [int(one) for one in np.atleast_1d(self.attributes[name])]
        if number is None or self.optional(number) is None:
            return None
        return [int(one) for one in np.atleast_1d(self.numbers(number))]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def refused(self, cause: str, fix: str) -> CaptureError:
        """The node cannot be said."""
        return CaptureError("model_refused", line=self.place, node=self.name, cause=cause, fix=fix)


Handler = Callable[[Call], Array | tuple[Array, ...] | None]
"""What a node gives; None leaves it to the function that ONNX defines it by."""


def known_numbers(array: Array) -> NumpyArray | None:
    """The numbers of an array that follows from numbers in memory; None where they are too many, or
    not known yet."""
    if array.size > MAX_KNOWN_ELEMENTS:
        return None
    source = array.value.node.source
    if isinstance(source, MemorySource):
        return source.array
    if array.value.node.data is not None:
        return array.value.node.data
    made = lower([array.value])
    arrays = [one.array for one in made.sources if isinstance(one, MemorySource)]
    sizes = [spec.count for spec in made.graph.specs()]
    if len(arrays) != len(made.sources) or max(sizes) > MAX_KNOWN_ELEMENTS:
        return None
    return interpret(made.graph, [np.asarray(one, order="C") for one in arrays])[0]
