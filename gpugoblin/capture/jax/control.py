"""Primitives of JAX that hold programs of their own: calls are followed, loops written out.

Owns: one small function for each, and the bound on loops that are written out.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import gpugoblin as gg
from gpugoblin.capture.applying import apply
from gpugoblin.capture.array import Array
from gpugoblin.capture.expression import Value
from gpugoblin.capture.jax.call import Call, Handler
from gpugoblin.catalog.spec import FLOATS

__all__ = ["HANDLERS", "MAX_STEPS"]

MAX_STEPS: Final = 256


def _inside(name: str) -> Handler:
    return lambda call: call.run(call[name], call.operands)


def _own_rule(name: str) -> Handler:
    """A program with a derivative rule of its own. Its values are taken; its gradient would be that
    of its values, so it is refused, except where the rule is JAX's own, which gives the same."""

    def run(call: Call) -> tuple[Array, ...]:
        results = call.run(call[name], call.operands)
        if _of_jax(call[name]):
            return results
        return tuple(
            Array(Value(apply("no_gradient", [one.value], call.place), 0))
            if one.value.spec.dtype in FLOATS
            else one
            for one in results
        )

    return run


def _of_jax(program: Any) -> bool:
    """Whether a function was written in JAX itself."""
    told = getattr(getattr(program, "jaxpr", program), "debug_info", None)
    where = str(getattr(told, "func_src_info", "")).partition(" at ")[2]
    home = os.path.dirname(str(sys.modules["jax"].__file__))
    return where.startswith(home + os.sep)


def _scan(call: Call) -> tuple[Array, ...]:
    length, constants, carried = call["length"], call["num_consts"], call["num_carry"]
    if length > MAX_STEPS:
        raise call.refused(
            f"it has {length} steps, and {MAX_STEPS} are written out",
            "Use fewer steps, or vectorize the loop with jax.vmap.",
        )
    fixed = list(call.operands[:constants])
    state = list(call.operands[constants : constants + carried])
    rows = call.operands[constants + carried :]
    found: list[list[Array]] = []
    order = range(length)
    for step in reversed(order) if call["reverse"] else order:
        results = call.run(call["jaxpr"], [*fixed, *state, *(row[step] for row in rows)])
        state = list(results[:carried])
        found.append(list(results[carried:]))
    if call["reverse"]:
        found.reverse()
    stacked = [gg.stack([row[n] for row in found]) for n in range(len(call.shapes) - carried)]
    return (*state, *stacked)


def _cond(call: Call) -> tuple[Array, ...]:
    """Both branches, and the choice elementwise: a branch has no effects."""
    which, *operands = call.operands
    branches = [call.run(branch, operands) for branch in call["branches"]]
    found = list(branches[0])
    for number, results in enumerate(branches[1:], 1):
        chosen = which if which.dtype.kind == "b" else which >= number
        found = [gg.where(chosen, a, b) for a, b in zip(results, found, strict=True)]
    return tuple(found)


def _while(call: Call) -> Array:
    raise call.refused(
        "how often it runs depends on numbers that are only known later",
        "Use jax.lax.scan with a fixed number of steps.",
    )


HANDLERS: Final[dict[str, Handler]] = {
    "checkpoint": _inside("jaxpr"),
    "closed_call": _inside("call_jaxpr"),
    "cond": _cond,
    "core_call": _inside("call_jaxpr"),
    "custom_jvp_call": _own_rule("call_jaxpr"),
    "custom_vjp_call": _own_rule("call_jaxpr"),
    "custom_vjp_call_jaxpr": _own_rule("fun_jaxpr"),
    "jit": _inside("jaxpr"),
    "pjit": _inside("jaxpr"),
    "remat2": _inside("jaxpr"),
    "scan": _scan,
    "while": _while,
}
"""Primitive -> its handler."""
