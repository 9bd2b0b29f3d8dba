"""Which operators of ONNX can be said: the handlers of all families.

Owns: the table. An operator that is not in it is said by the function body that ONNX itself defines
for it, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpugoblin.capture.onnx import elementwise, layers, reductions, shapes
from gpugoblin.capture.onnx.node import Handler

__all__ = ["HANDLERS", "UNSAID"]

HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    dict(
        sorted(
            {
                **elementwise.HANDLERS,
                **shapes.HANDLERS,
                **reductions.HANDLERS,
                **layers.HANDLERS,
            }.items()
        )
    )
)
"""Operator of the domain ai.onnx -> its handler."""

UNSAID: Final = shapes.UNSAID
"""Operators that are there to be refused with their reason."""
