"""From a graph of ATen operators to a graph of the catalog.

Owns: the walk over the nodes, the order of the inputs (arguments, parameters, buffers, then large
constants and the key of random numbers), and the refusal of what has no rule. Must not: know any
one operator.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpugoblin.capture.caller import Place
from gpugoblin.capture.torch.context import NARROW, Context, Unsupported
from gpugoblin.capture.torch.families import lookup
from gpugoblin.capture.torch.library import dtype_name, load_torch
from gpugoblin.capture.torch.lines import place_of_node
from gpugoblin.capture.torch.tracing import Slot, Traced
from gpugoblin.capture.torch.values import Pair, Value
from gpugoblin.catalog.spec import DTYPES, Array, TensorSpec
from gpugoblin.errors import CaptureError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.ir import Graph

__all__ = ["Input", "LoweredGraph", "lower_trace"]

_ORDER: Final = {"argument": 0, "parameter": 1, "buffer": 2}
_SILENT: Final = (
    *("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range"),
    *("sym_constrain_range_for_size", "_functional_assert_scalar", "_functional_assert_async"),
    *("_linalg_check_errors", "_async_error", "record_stream"),
)
"""Checks that the trace wrote down; they have no result."""

_WRAPPING: Final = (
    *("add", "sub", "rsub", "mul", "neg", "abs", "pow", "square", "_to_copy", "to", "fill", "sum"),
    *("bitwise_not", "bitwise_left_shift", "__lshift__", "floor_divide", "cumsum", "prod"),
)
"""Operators whose result can leave the range of a narrow integer."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the graph: `argument`, `parameter`, `buffer`, `constant` or `key`.

    Args:
        part: "" for a real tensor, "real" or "imag" for half of a complex one.
        data: for a constant the numbers.
    """

    kind: str
    name: str
    part: str = ""
    data: Array | None = None


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A catalog graph and what its inputs and outputs are.

    Args:
        outputs: for each output of the program: how many of the graph's it takes (2: complex).
        updates: buffers that the program writes, by name, in the order of the last outputs.
        lines: the researcher's line of each node's first value.
        halves: whether the program holds floats of 16 bits, which the graph computes in float32.
        refused: why gradients of autograd.Functions cannot be said, each with its line.
    """

    graph: Graph
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]
    updates: tuple[str, ...]
    lines: dict[int, Place]
    random: bool
    halves: bool = False
    refused: tuple[str, ...] = ()


def lower_trace(traced: Traced) -> LoweredGraph:
    """The catalog graph of a trace.

    Raises:
        CaptureError: `operator_missing`, `operator_refused`, with the line.
        GraphError: over_limit.
    """
    return _Walk(traced).run()


class _Walk:
    """The state of one lowering."""

    def __init__(self, traced: Traced) -> None:
        self._traced = traced
        self._builder = GraphBuilder()
        self._context = Context(
            self._builder, key=self._key, lower_body=self._lower_body, calls=traced.calls
        )
        self._inputs: list[tuple[int, Input]] = []
        self._known: dict[Any, Any] = {}
        self._places: dict[int, Place] = {}
        self._random: int | None = None

    def run(self) -> LoweredGraph:
        self._declare()
        return self._finish(self._walked(map(self._slot, self._traced.slots)))

    def body(self, specs: Sequence[TensorSpec]) -> Graph:
        """The trace as a program of its own: no weights, no random numbers, no large constants."""
        self._context.key = None
        self._context.most_constant_bytes = 1 << 20
        given = [Value(self._builder.input(spec)) for spec in specs]
        outputs = self._walked(iter(given))
        if not all(isinstance(one, Value) for one in outputs):
            raise Unsupported("a loop's body that gives complex numbers or no tensors")
        return self._builder.build([one.number for one in outputs])

    def _lower_body(self, module: Any, specs: Sequence[TensorSpec]) -> Graph:
        inner = _Walk(Traced(module.graph, (), (), module, self._traced.calls))
        found = inner.body(specs)
        self._context.refused.extend(inner._context.refused)
        return found

    def _walked(self, placeholders: Iterator[Any]) -> list[Any]:
        outputs: list[Any] = []
        for node in self._traced.graph.nodes:
            if node.op == "placeholder":
                self._known[node] = next(placeholders)
            elif node.op == "get_attr":
                self._known[node] = self._attribute(node)
            elif node.op == "output":
                given = self._value(node.args[0])
                outputs = list(given) if isinstance(given, list | tuple) else [given]
            else:
                self._known[node] = self._call(node)
        return outputs

    # inputs

    def _declare(self) -> None:
        """Arguments first, then weights, whatever order the trace has; shared tensors once."""
        torch = load_torch()
        self._slots: dict[int, Any] = {}
        wanted = [slot for slot in self._traced.slots if slot.kind in _ORDER]
        for slot in sorted(wanted, key=lambda slot: _ORDER[slot.kind]):
            same = id(slot.tensor)
            if same in self._slots and slot.kind != "argument":
                continue
            shape = tuple(slot.tensor.shape)
            if slot.tensor.dtype in (torch.complex64, torch.complex128):
                dtype = "float32" if slot.tensor.dtype == torch.complex64 else "float64"
                parts = [self._input(slot, TensorSpec(dtype, shape), p) for p in ("real", "imag")]
                found: Any = Pair(*parts)
            else:
                found = self._input(slot, TensorSpec(self._dtype(slot), shape), "")
            self._slots[self._slot_key(slot)] = found

    def _slot_key(self, slot: Slot) -> int:
        return id(slot) if slot.kind == "argument" else id(slot.tensor)

    def _dtype(self, slot: Slot) -> str:
        try:
            return self._context.catalog_dtype(slot.tensor.dtype)
        except Unsupported as cause:
            raise CaptureError(
                "torch_input_refused", subject=f"{slot.kind} {slot.name}", reason=str(cause)
            ) from cause

    def _input(self, slot: Slot, spec: TensorSpec, part: str) -> Value:
        number = self._builder.input(spec)
        self._inputs.append((number, Input(slot.kind, slot.name, part)))
        return Value(number)

    def _slot(self, slot: Slot) -> Any:
        if slot.kind == "none":
            return None
        if slot.kind == "constant":
            return self._constant(slot.tensor, slot.name)
        return self._slots[self._slot_key(slot)]

    def _attribute(self, node: Any) -> Any:
        found = self._traced.module
        for name in str(node.target).split("."):
            found = getattr(found, name)
        return self._constant(found, str(node.target)) if hasattr(found, "dtype") else found

    def _constant(self, tensor: Any, name: str) -> Any:
        if tensor is None or not hasattr(tensor, "dtype"):
            return tensor
        try:
            return self._context.constant_of(tensor)
        except Unsupported as cause:
            raise CaptureError(
                "torch_input_refused", subject=f"the constant {name}", reason=str(cause)
            ) from cause

    def _key(self) -> int:
        if self._random is None:
            self._random = self._builder.input(TensorSpec("int64", (2,)))
            self._inputs.append((self._random, Input("key", "random")))
        return self._random

    # nodes

    def _value(self, given: Any) -> Any:
        """Arguments of a node with its nodes exchanged for what they became."""
        if isinstance(given, list | tuple):
            return [self._value(one) for one in given]
        if isinstance(given, slice):
            return slice(*(self._value(one) for one in (given.start, given.stop, given.step)))
        if isinstance(given, dict):
            return {key: self._value(one) for key, one in given.items()}
        return self._known[given] if hasattr(given, "op") and given in self._known else given

    def _call(self, node: Any) -> Any:
        args, kwargs = self._value(node.args), self._value(node.kwargs)
        if node.target is python_operator.getitem:
            return args[0][args[1]]
        target = node.target
        if str(target) == "with_effects":
            # An order between effects, (token, operator, *arguments): the graph has no effects.
            token, target, *args = args
            return (token, self._apply(node, target, args, kwargs))
        return self._apply(node, target, args, kwargs)

    def _apply(self, node: Any, target: Any, args: Any, kwargs: Any) -> Any:
        name = str(target).removeprefix("aten.").removeprefix("prims.")
        if name.partition(".")[0] in _SILENT:
            return None
        if name.startswith("sym_size"):
            return self._context.shape(args[0])[args[1]]
        rule = lookup(name)
        if rule is None:
            rule = lookup(_without_writing(name))
            if rule is not None:
                # Decompositions write to tensors of their own making. What had that name before is
                # not read any more, or reads through it: a view that is read later shows when the
                # graph is compared with eager.
                found = self._ruled(rule, node, name, args, kwargs)
                self._known[node.args[0]] = found
                return found
            if not _tensors(args) and not _tensors(kwargs) and callable(target):
                return target(*args, **kwargs)
            raise self._missing(node, name, args)
        return self._ruled(rule, node, name, args, kwargs)

    def _ruled(self, rule: Any, node: Any, name: str, args: Any, kwargs: Any) -> Any:
        before = len(self._builder)
        try:
            found = rule(self._context, *args, **kwargs)
        except Unsupported as cause:
            raise self._refused(node, name, args, str(cause)) from cause
        except (AttributeError, TypeError) as cause:
            # A rule for reals was given complex numbers, or an argument that it does not know.
            told = "complex numbers" if _complex(args) else f"these arguments ({cause})"
            raise self._refused(node, name, args, f"no rule for {told}") from cause
        except GraphError as cause:
            if cause.code == "over_limit":
                raise self._over(node, cause) from cause
            raise self._refused(node, name, args, cause.what.rstrip(".")) from cause
        found = self._narrowed(node, name, found)
        place = place_of_node(node)
        for number in range(before, len(self._builder)):
            self._places[number] = place
        return found

    def _narrowed(self, node: Any, name: str, found: Any) -> Any:
        """Narrow integers wrap where arithmetic or a cast can have left their range."""
        dtype = dtype_name(getattr(node.meta.get("val"), "dtype", ""))
        if dtype in DTYPES or dtype not in NARROW or not isinstance(found, Value):
            return found
        if name.partition(".")[0] not in _WRAPPING or self._context.dtype(found) != "int32":
            return found
        return self._context.wrapped(found, dtype)

    # refusals

    def _shapes(self, args: Any) -> str:
        specs = [
            str(self._context.spec(one))
            if isinstance(one, Value)
            else f"complex{list(self._context.shape(one.real))}"
            for one in _tensors(args)
        ]
        return " and ".join(specs) or "no tensors"

    def _missing(self, node: Any, name: str, args: Any) -> CaptureError:
        from gpugoblin.capture.torch.rewrites import rewrite_for

        return CaptureError(
            "operator_missing",
            line=place_of_node(node),
            operator=f"aten.{name}" if "::" not in name else name,
            operands=self._shapes(args),
            fix=rewrite_for(name),
        )

    def _refused(self, node: Any, name: str, args: Any, cause: str) -> CaptureError:
        from gpugoblin.capture.torch.rewrites import rewrite_for

        return CaptureError(
            "operator_refused",
            line=place_of_node(node),
            operator=f"aten.{name}",
            operands=self._shapes(args),
            cause=cause,
            fix=rewrite_for(name, cause),
        )

    def _over(self, node: Any, cause: GraphError) -> CaptureError:
        return CaptureError(
            "program_too_large", line=place_of_node(node), reason=cause.what.rstrip(".")
        )

    # results

    def _finish(self, outputs: list[Any]) -> LoweredGraph:
        results = [
            one for one, name in zip(outputs, self._traced.outputs, strict=False) if not name
        ]
        buffers = {
            name: one for one, name in zip(outputs, self._traced.outputs, strict=False) if name
        }
        counts: list[int] = []
        numbers: list[int] = []
        for result in [*results, *buffers.values()]:
            parts = [result.real, result.imag] if isinstance(result, Pair) else [result]
            if not isinstance(parts[0], Value):
                parts = [self._context.number(result, self._context.promoted(result))]
            counts.append(len(parts))
            numbers.extend(part.number for part in parts)
        graph, mapping = self._builder.build_numbered(numbers)
        large = [
            (number, Input("constant", f"constant{place}", data=array))
            for place, (number, array) in enumerate(self._context.large.items())
        ]
        inputs = [one for _, one in sorted([*self._inputs, *large], key=lambda pair: pair[0])]
        lines = {mapping[old]: place for old, place in self._places.items() if old in mapping}
        kept = tuple(counts[: len(results)])
        return LoweredGraph(
            graph, tuple(inputs), kept, tuple(buffers), lines, self._random is not None,
            self._context.halves, tuple(self._context.refused),
        )  # fmt: skip


def _without_writing(name: str) -> str:
    """`squeeze.dim` for `squeeze_.dim`; "" for what does not write to its first argument."""
    base, dot, overload = name.partition(".")
    writes = base.endswith("_") and not base.startswith("__")
    return f"{base[:-1]}{dot}{overload}" if writes else ""


def _complex(args: Any) -> bool:
    return any(isinstance(one, Pair) for one in _tensors(args))


def _tensors(given: Any) -> list[Value | Pair]:
    if isinstance(given, Value | Pair):
        return [given]
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list | tuple):
        return [one for part in given for one in _tensors(part)]
    return []
