"""`gg.from_jax`: functions written for JAX on lazy arrays.

Owns: tracing the function to a jaxpr, and the walk over its equations. Must not: import `jax`
before it is used, or run any of it on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from gpugoblin.capture.array import Array, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.convert import as_number
from gpugoblin.capture.elementwise import literal
from gpugoblin.capture.jax.call import Call, Handler
from gpugoblin.catalog.spec import DTYPES
from gpugoblin.errors import CaptureError, ClientError, GoblinError

__all__ = ["from_jax"]

_CLOSED: Final = "ClosedJaxpr"


def from_jax(f: Callable[..., Any], *arguments: Any) -> Any:
    """`f(*arguments)` as lazy arrays: `gg.from_jax(model, params, gg.open("x.zarr"))`.

    `f` is any function that JAX can trace (`jax.jit`, `jax.grad` and `jax.vmap` included). It is
    traced on shapes alone, and what it did becomes a graph; no JAX is needed where it is computed.

    Args:
        f: takes and returns trees of arrays.
        arguments: trees of lazy arrays, ndarrays, JAX's arrays and numbers. Needs the extra `jax`.

    Returns:
        the tree that `f` returns, with lazy arrays.

    Raises:
        ClientError: `extra_missing`.
        CaptureError: `model_refused`, naming the primitive that cannot be said; `dtype_refused`.
    """
    place = caller()
    jax = _jax()
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    arrays = [_leaf(leaf, place) for leaf in leaves]
    specs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arrays]

    def flat(*given: Any) -> Any:
        return f(*jax.tree_util.tree_unflatten(tree, given))

    traced, shape = jax.make_jaxpr(flat, return_shape=True)(*specs)
    for array, variable in zip(arrays, traced.jaxpr.invars, strict=True):
        if array.dtype != variable.aval.dtype:
            raise CaptureError(
                "dtype_refused", line=place, subject="an argument", dtype=str(array.dtype),
                fix=f'JAX would make it {variable.aval.dtype}: convert it with .astype, or set '
                'jax.config.update("jax_enable_x64", True).',
            )  # fmt: skip
    found = _Walk(place).run(traced, arrays)
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), found)


class _Walk:
    """One evaluation of a jaxpr on lazy arrays."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._handlers = _handlers()

    def run(self, jaxpr: Any, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The results of a jaxpr, closed or not."""
        constants: Sequence[Any] = ()
        if type(jaxpr).__name__ == _CLOSED:
            constants, jaxpr = jaxpr.consts, jaxpr.jaxpr
        values: dict[Any, Array] = {}
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[variable] = self._constant(constant)
        values.update(zip(jaxpr.invars, arrays, strict=True))
        for equation in jaxpr.eqns:
            operands = [self._read(variable, values) for variable in equation.invars]
            found = self._equation(equation, operands)
            values.update(zip(equation.outvars, found, strict=False))
        return tuple(self._read(variable, values) for variable in jaxpr.outvars)

    def _equation(self, equation: Any, operands: Sequence[Array]) -> tuple[Array, ...]:
        name = equation.primitive.name
        call = Call(
            name, operands, equation.params,
            [tuple(variable.aval.shape) for variable in equation.outvars],
            [self._dtype(variable.aval, name) for variable in equation.outvars],
            self._place, self.run,
        )  # fmt: skip
        handler = self._handlers.get(name)
        if handler is None:
            raise call.refused("the catalog cannot say it", "Write it with other functions.")
        try:
            found = handler(call)
        except CaptureError:
            raise
        except (GoblinError, LookupError, TypeError, ValueError) as cause:
            raise call.refused(
                f"it does not fit its operands ({cause})", "Write it with other functions."
            ) from cause
        return found if isinstance(found, tuple) else (found,)

    def _dtype(self, abstract: Any, name: str) -> str:
        dtype = str(getattr(abstract, "dtype", "no array"))
        if dtype not in DTYPES:
            raise CaptureError(
                "model_refused", line=self._place, node=name,
                cause=f"it gives {dtype}, which is not computed here",
                fix=f"Use {', '.join(DTYPES)}.",
            )  # fmt: skip
        return dtype

    def _read(self, variable: Any, values: dict[Any, Array]) -> Array:
        if hasattr(variable, "val"):
            return self._constant(variable.val, str(variable.aval.dtype))
        return values[variable]

    def _constant(self, given: Any, dtype: str = "") -> Array:
        array = np.asarray(given)
        if dtype and array.dtype.kind != "V":
            array = array.astype(dtype)
        if array.ndim == 0 and str(array.dtype) in DTYPES:
            return Array(literal(array.item(), str(array.dtype), self._place))
        return Array(as_value(array, self._place))


def _handlers() -> dict[str, Handler]:
    from gpugoblin.capture.jax import arrays, control, elementwise

    return {**elementwise.HANDLERS, **arrays.HANDLERS, **control.HANDLERS}


def _leaf(leaf: Any, place: Place) -> Array:
    number = as_number(leaf)
    if number is not None:
        dtype = {bool: "bool", int: "int32", float: "float32"}[type(number)]
        return Array(literal(number, dtype, place))
    if isinstance(leaf, Array):
        return leaf
    return Array(as_value(np.asarray(leaf), place))


def _jax() -> Any:
    try:
        return import_module("jax")
    except ImportError as cause:
        raise ClientError("extra_missing", package="jax", extra="jax") from cause
