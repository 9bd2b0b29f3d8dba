"""random on a card: Philox4x32-10, four elements a thread. Owns its kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from app.engine.backends.card.angles import cos, sin
from app.engine.backends.card.emission import Emission
from app.engine.backends.card.kernel import Kernel
from app.engine.backends.card.powers import log1p, sqrt
from app.engine.backends.card.stages import each
from app.engine.backends.card.values import Value
from gpugoblin.catalog.philox import ROUNDS
from gpugoblin.catalog.rules import text_attribute
from gpugoblin.catalog.spec import Attributes, TensorSpec

__all__ = ["random"]

_FIRST: Final = 0xD2511F53
_SECOND: Final = 0xCD9E8D57
_STEPS: Final = (0x9E3779B9, 0xBB67AE85)


def _words(kernel: Kernel, block: Value) -> list[Value]:
    """The four words of a block, as `gpugoblin.catalog.philox`."""
    key, stream = (kernel.load("uint64", 0, place) for place in (0, 1))
    keys = [key.as_("uint32"), (key >> 32).as_("uint32")]
    state = [
        block,
        kernel.number("uint32", 0),
        stream.as_("uint32"),
        (stream >> 32).as_("uint32"),
    ]
    for _ in range(ROUNDS):
        left = state[0].as_("uint64") * _FIRST
        right = state[2].as_("uint64") * _SECOND
        state = [
            (right >> 32).as_("uint32") ^ state[1] ^ keys[0],
            right.as_("uint32"),
            (left >> 32).as_("uint32") ^ state[3] ^ keys[1],
            left.as_("uint32"),
        ]
        keys = [word + step for word, step in zip(keys, _STEPS, strict=True)]
    return state


def _normal(first: Value, second: Value) -> tuple[Value, Value]:
    """Box and Muller."""
    radius = sqrt(log1p(-first) * -2.0)
    angle = second * (2.0 * math.pi)
    return radius * cos(angle), radius * sin(angle)


def random(
    attributes: Attributes, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> Emission:
    function, count = text_attribute(attributes, "function"), outputs[0].count

    def body(kernel: Kernel, block: Value) -> None:
        values = _words(kernel, block)
        if function != "bits":
            values = [
                kernel.make("ConvertUToF", "float32", word >> 8) * 2.0**-24 for word in values
            ]
        if function == "normal":
            values = [*_normal(values[0], values[1]), *_normal(values[2], values[3])]
        first = block * 4
        for place, value in enumerate(values):
            with kernel.when((first + place) < count):
                kernel.store(1, first + place, value)

    return Emission(tuple(each(-(-count // 4), 2, body)))
