"""Loops and branches that torch keeps whole: scan, while_loop, cond. Owns: their lowering.

Their bodies become programs of their own, lowered by the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpugoblin.capture.torch.context import Context, Unsupported
from gpugoblin.capture.torch.counting import most_steps
from gpugoblin.capture.torch.registry import aten
from gpugoblin.capture.torch.values import Value
from gpugoblin.catalog.bodies import MOST_STEPS
from gpugoblin.catalog.program import Constant

__all__: list[str] = []


def _values(c: Context, given: Sequence[Any]) -> list[Value]:
    """Operands of a body; a Python number among them becomes a scalar."""
    if any(not isinstance(one, Value | bool | int | float) for one in given):
        raise Unsupported("complex numbers or other objects carried by a loop")
    return [one if isinstance(one, Value) else c.number(one, c.promoted(one)) for one in given]


def _number(c: Context, value: Value) -> int | None:
    """The number that a value is, where the graph holds it."""
    source = c.builder.source(value.number)
    if not isinstance(source, Constant) or source.spec.shape:
        return None
    return int(source.array().item()) if source.spec.dtype in ("int32", "int64") else None


@aten("scan")
def scan(
    c: Context, combine: Any, init: Sequence[Any], xs: Sequence[Any], rest: Sequence[Any] = ()
) -> tuple[Value, ...]:
    carried, slices, others = (_values(c, one) for one in (init, xs, rest))
    if not slices:
        raise Unsupported("a scan over nothing")
    length = c.shape(slices[0])[0]
    specs = [c.spec(one) for one in carried]
    steps = [type(spec)(spec.dtype, spec.shape[1:]) for spec in map(c.spec, slices)]
    body = c.lower_body(combine, [*specs, *steps, *map(c.spec, others)])
    given: dict[str, Any] = {
        "body": body,
        "carries": len(carried),
        "slices": len(slices),
    }
    return c.ops("scan", [*carried, *slices, *others], length=length, **given)


@aten("while_loop")
def while_loop(
    c: Context, test: Any, body: Any, carried: Sequence[Any], rest: Sequence[Any] = ()
) -> tuple[Value, ...]:
    """torch names no most number of steps: that of a test which counts, or the catalog's."""
    first, others = _values(c, carried), _values(c, rest)
    specs = [c.spec(one) for one in (*first, *others)]
    question, step = c.lower_body(test, specs), c.lower_body(body, specs)
    starts = [_number(c, one) for one in first]
    given: dict[str, Any] = {
        "test": question,
        "body": step,
        "carries": len(first),
        "limit": most_steps(question, step, starts, MOST_STEPS),
    }
    return c.ops("while_loop", [*first, *others], **given)[: len(first)]


@aten("cond")
def cond(
    c: Context, chosen: Value, if_true: Any, if_false: Any, operands: Sequence[Any] = ()
) -> tuple[Value, ...]:
    given = _values(c, operands)
    specs = [c.spec(one) for one in given]
    branches = {
        "if_true": c.lower_body(if_true, specs),
        "if_false": c.lower_body(if_false, specs),
    }
    return c.ops("cond", [c.reshape(c.cast(chosen, "bool"), ()), *given], **branches)


@aten("map_impl")
def mapped(c: Context, body: Any, xs: Sequence[Any], rest: Sequence[Any] = ()) -> tuple[Value, ...]:
    """A scan that carries nothing."""
    return scan(c, body, (), xs, rest)
