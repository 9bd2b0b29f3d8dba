"""`gg.gradient`: derivatives of lazy arrays and of functions of them.

Owns: the step from an expression to its graph, through the catalog's own reverse mode, and back.
Must not: know any derivative; the operators declare them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from gpugoblin.capture.array import Array, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.elementwise import literal
from gpugoblin.capture.expression import INPUT, Expression, Value, in_order
from gpugoblin.capture.lifting import lift
from gpugoblin.capture.lower import lower
from gpugoblin.capture.shaping import broadcast_to
from gpugoblin.capture.source import NodeSource
from gpugoblin.errors import CaptureError, GraphError
from gpugoblin.graph.grad import gradient as graph_gradient
from gpugoblin.graph.grad import located

__all__ = ["gradient", "value_and_gradient"]

Wrt = Array | Sequence[Array]
Numbers = int | Sequence[int]


@overload
def gradient(of: Array, wrt: Array) -> Array: ...
@overload
def gradient(of: Array, wrt: Sequence[Array]) -> tuple[Array, ...]: ...
@overload
def gradient(of: Callable[..., Array], wrt: Numbers = 0) -> Callable[..., Any]: ...


def gradient(of: Array | Callable[..., Array], wrt: Wrt | Numbers = 0) -> Any:
    """The derivative of a float32 of one element.

    `gg.gradient(loss, w)` is the derivative of the lazy array `loss` by `w`, which `loss` was made
    from; a list of arrays gives a tuple. `gg.gradient(f, 0)` is a function that takes what `f`
    takes and gives the derivative of its result by argument 0; several numbers give a tuple. Where
    there is no derivative, it is what PyTorch gives. Asking twice gives the second order.

    Raises:
        CaptureError: `gradient_refused`, where the result is not one float32, `wrt` is none, or an
            operator has no derivative.
    """
    if isinstance(of, Array):
        return _by_arrays(of, wrt, caller())[1]
    both = value_and_gradient(of, _numbers(wrt))

    def derivative(*arguments: Any, **options: Any) -> Any:
        return both(*arguments, **options)[1]

    return derivative


def value_and_gradient(
    f: Callable[..., Array], wrt: Numbers = 0
) -> Callable[..., tuple[Array, Any]]:
    """A function that gives the result of `f` and its derivative, which share their work.

    Raises (when called):
        CaptureError: as `gradient`.
    """

    def both(*arguments: Any, **options: Any) -> tuple[Array, Any]:
        place = caller()
        given = list(arguments)
        single = isinstance(wrt, int)
        numbers = [wrt] if isinstance(wrt, int) else list(wrt)
        for number in numbers:
            if not -len(given) <= number < len(given):
                raise _refused(place, f"there is no argument {number}", "Count from 0.")
            given[number] = Array(_fresh(as_value(given[number], place)))
        found = f(*given, **options)
        if not isinstance(found, Array):
            raise _refused(
                place, f"the function gives a {type(found).__name__}", "Return one lazy array."
            )
        roots = [given[number].value for number in numbers]
        value, derivatives = _differentiated(found.value, roots, place, strict=False)
        arrays = tuple(Array(one) for one in derivatives)
        return Array(value), arrays[0] if single else arrays

    return both


def _numbers(wrt: object) -> Numbers:
    if isinstance(wrt, int):
        return wrt
    if isinstance(wrt, Sequence) and all(isinstance(one, int) for one in wrt):
        return tuple(int(one) for one in wrt)
    raise _refused(
        caller(), "arguments of a function are named by number", "Write gg.gradient(f, 0)."
    )


def _by_arrays(of: Array, wrt: object, place: Place) -> tuple[Array, Any]:
    single = isinstance(wrt, Array)
    given = [wrt] if isinstance(wrt, Array) else list(wrt) if isinstance(wrt, Sequence) else []
    roots = [one.value for one in given if isinstance(one, Array)]
    if not given or len(roots) != len(given):
        raise _refused(
            place, "what it is by is no lazy array", "Pass the arrays that it was made from."
        )
    value, found = _differentiated(of.value, roots, place, strict=True)
    arrays = tuple(Array(one) for one in found)
    return Array(value), arrays[0] if single else arrays


def _differentiated(
    of: Value, roots: Sequence[Value], place: Place, *, strict: bool
) -> tuple[Value, list[Value]]:
    """The value and its derivatives; `strict` refuses a root that it does not depend on, which
    otherwise gets zeros."""
    stands = {
        root: NodeSource("", "", root.spec, f"stand-in {number}", place=place)
        for number, root in enumerate(dict.fromkeys(roots))
    }
    cut, leaves = _cut(of, stands)
    made = lower([cut])
    inputs = [leaves[source.fingerprint, source.spec] for source in made.sources]
    numbers = {value: number for number, value in enumerate(inputs)}
    missing = [root for root in stands if root not in numbers]
    if missing and strict:
        raise _refused(
            place, f"the result does not depend on {missing[0].spec}",
            "Pass the arrays themselves that it was made from, not equal ones.",
        )  # fmt: skip
    try:
        wanted = [root for root in stands if root in numbers]
        graph = graph_gradient(made.graph, [numbers[root] for root in wanted])
    except GraphError as cause:
        told = located(cause, made.names.lines)
        raise _refused(place, told.what.rstrip("."), told.next_step) from cause
    value, *found = lift(graph, inputs, place)
    known = dict(zip(wanted, found, strict=True))
    return value, [known[root] if root in known else _zeros(root, place) for root in roots]


def _zeros(root: Value, place: Place) -> Value:
    return broadcast_to(literal(0.0, root.spec.dtype, place), root.spec.shape, place)


def _cut(
    of: Value, stands: Mapping[Value, NodeSource]
) -> tuple[Value, dict[tuple[str, object], Value]]:
    """The expression with inputs of their own in the place of `stands`, and the value that each
    input of it stands for."""
    leaves: dict[tuple[str, object], Value] = {}
    swapped: dict[Value, Value] = {}
    for root, source in stands.items():
        node = Expression(INPUT, (), (root.spec,), source=source, place=source.place)
        swapped[root] = Value(node, 0)
        leaves[source.fingerprint, source.spec] = root
    for node in in_order((of,)):
        if node.source is not None:
            value = Value(node, 0)
            leaves.setdefault((node.source.fingerprint, node.source.spec), value)
        operands = tuple(swapped.get(value, value) for value in node.operands)
        copy = node
        if operands != node.operands:
            copy = Expression(
                node.operator, operands, node.specs, node.attributes, node.source, node.data,
                node.place,
            )  # fmt: skip
        for index in range(len(node.specs)):
            swapped.setdefault(Value(node, index), Value(copy, index))
    return swapped[of], leaves


def _fresh(value: Value) -> Value:
    """The same value as a node of its own, so that one array passed twice is two arguments."""
    shape: dict[str, Any] = {"shape": value.spec.shape}
    node = Expression("reshape", (value,), (value.spec,), shape, place=value.node.place)
    return Value(node, 0)


def _refused(place: Place, cause: str, fix: str) -> CaptureError:
    return CaptureError("gradient_refused", line=place, cause=cause, fix=fix)
