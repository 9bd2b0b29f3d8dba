"""The dtypes that kernels of cards have. Owns that one declaration; the agent reports it."""

from __future__ import annotations

from typing import Final

from gpugoblin.graph.dtypes import Dtypes

__all__ = ["NARROW_DTYPES", "WIDE_DTYPES"]

_NARROW: Final = frozenset({"int8", "int16", "uint8"})
_EVERYWHERE: Final = frozenset({"float32", "int32", "int64", "bool", "uint8", "int8"})
_OF_16_BITS: Final = frozenset({"int16", "float16", "bfloat16"})


def _served(values: frozenset[str]) -> Dtypes:
    """Kernels that add, multiply or order know no narrow integers; those of `conv` float32 only."""
    return Dtypes.of(values, values - _NARROW, ("float32",))


NARROW_DTYPES: Final = _served(_EVERYWHERE)
"""Of a card that stores no 16 bits."""
WIDE_DTYPES: Final = _served(_EVERYWHERE | _OF_16_BITS)
"""Of one that does."""
