"""One equation of a jaxpr, as its handler sees it.

Owns: the shape of handlers, and the refusals. Must not: know any primitive, or import JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpugoblin.capture.array import Array
from gpugoblin.capture.caller import Place
from gpugoblin.errors import CaptureError

__all__ = ["Call", "Handler"]


@dataclass(frozen=True, slots=True)
class Call:
    """An equation with its operands.

    Args:
        shapes, dtypes: of the results.
        run: evaluates a jaxpr (closed or not, with its constants) on arrays.
    """

    primitive: str
    operands: Sequence[Array]
    parameters: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[str]
    place: Place
    run: Callable[[Any, Sequence[Array]], tuple[Array, ...]] = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        """A parameter."""
        return self.parameters[name]

    def array(self, number: int) -> Array:
        """Operand `number`."""
        return self.operands[number]

    def refused(self, cause: str, fix: str) -> CaptureError:
        """The equation cannot be said."""
        return CaptureError(
            "model_refused", line=self.place, node=self.primitive, cause=cause, fix=fix
        )


Handler = Callable[[Call], Array | tuple[Array, ...]]
