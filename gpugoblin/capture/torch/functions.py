"""`torch.autograd.Function`: programs that bring the derivative of a part along.

Owns: what stands in the place of `Function.apply` while torch traces, the record of each call, and
the trace of its backward. A tracer sees the operators of the forward alone, so without this the
gradient would be theirs, without a word. Must not: lower anything.

The forward is traced as it is called; its results then pass an operator of our own, which is the
identity and names the call. What a backward reads (`ctx`) are tensors of that trace.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpugoblin.capture.caller import Place
from gpugoblin.capture.torch.library import load_torch
from gpugoblin.capture.torch.lines import place_of_error
from gpugoblin.errors import CaptureError

__all__ = ["BATCHED", "IN_BYTE_CODE", "Call", "Calls", "trace_backward", "watched"]

IN_BYTE_CODE: Final = "the tracer of byte code loses the backward of"
BATCHED: Final = -1
"""The number of a call inside of `torch.vmap`."""
_INNER: Final = ("torch._", "torch.utils.checkpoint", "torch.autograd")
"""Modules whose Functions are machinery and change no derivative."""


@dataclass(frozen=True, slots=True)
class Meta:
    """A tensor without its numbers."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, slots=True)
class Saved:
    """In the place of a tensor of the forward: its number among what the operator is given."""

    place: int


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a Function.

    Args:
        kind: the Function. context: what `forward` left in its `ctx`, with `Saved` for tensors.
        given: which arguments of `apply` are the operands; count: of all arguments.
        outputs: for each output of `forward` its number among the results, or None.
        metas: of the results, then of what the operator is given beside: operands, then what is
            saved.
        others: metas of the outputs that are no results, by place.
    """

    kind: Any
    context: dict[str, Any]
    given: tuple[int, ...]
    count: int
    outputs: tuple[int | None, ...]
    metas: tuple[Meta, ...]
    others: dict[int, Meta | None]
    place: Place

    @property
    def results(self) -> int:
        return sum(one is not None for one in self.outputs)

    @property
    def backward(self) -> Any:
        """The program's; `vjp` is torch's other name for it."""
        other = self.kind.vjp
        return self.kind.backward if other is load_torch().autograd.Function.vjp else other

    @property
    def once(self) -> bool:
        """Whether torch refuses to differentiate the backward."""
        code = getattr(self.backward, "__code__", None)
        wrapped = getattr(self.backward, "__wrapped__", None) is not None
        return wrapped and code is not None and code.co_filename.endswith("autograd/function.py")


Calls = list[Call]


class _Context:
    """The `ctx` of a Function."""

    def __init__(self, needs: Sequence[bool] = ()) -> None:
        self.needs_input_grad = tuple(needs)
        self.saved_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """For forward mode, which nothing here asks for."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value

    def mark_dirty(self, *tensors: Any) -> None:
        raise CaptureError(
            "operator_refused",
            line=_here(),
            operator="autograd.Function",
            operands="a tensor that it writes to",
            cause="a graph has nothing that writes in place",
            fix="Compute on a copy in forward, y = x.clone(), return y, and drop mark_dirty.",
        )


def _here() -> Place:
    return place_of_error(RuntimeError())


@functools.cache
def _operator() -> Any:
    """The identity that names a call; registered once a process."""
    torch = load_torch()

    def same(results: Any, seen: Any, call: int) -> Any:
        return [one.clone() for one in results]

    made = torch.library.custom_op(
        "gpugoblin::custom_gradient",
        same,
        mutates_args=(),
        schema="(Tensor[] results, Tensor[] seen, int call) -> Tensor[]",
    )
    made.register_fake(lambda results, seen, call: [torch.empty_like(one) for one in results])
    # Its backward is that of one example, and not of a batch.
    made.register_vmap(
        lambda info, dims, results, seen, call: (made(results, [], BATCHED), dims[0])
    )
    return made


def _gpugoblin_apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Only its name counts: `watched` puts another one of that name beside torch's `apply`."""
    raise NotImplementedError(cls.__name__)  # never reached: this one is in no namespace of torch


_NAME: Final = _gpugoblin_apply.__name__


def _standing_in(kept: types.CodeType) -> types.CodeType:
    """Code in the place of that of `Function.apply`. Programs keep `apply` bound, `f = F.apply`, so
    another attribute of the class would not be seen: the function itself has to change.

    Raises:
        RuntimeError: this torch's function is another one than known.
    """
    __class__ = None  # `super()` makes torch's function close over that name, so ours must, too

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return (__class__, _gpugoblin_apply(cls, args, kwargs))[1]

    if kept.co_freevars != apply.__code__.co_freevars:
        raise RuntimeError(f"torch.autograd.Function.apply closes over {kept.co_freevars}")
    return apply.__code__


@contextlib.contextmanager
def watched(calls: Calls) -> Iterator[None]:
    """While it lasts, each `apply` of a Function is written down in `calls`."""
    torch = load_torch()
    from torch._dynamo.variables.misc import AutogradFunctionVariable

    plain = torch.autograd.Function.apply.__func__
    kept, kept_in_byte_code = plain.__code__, AutogradFunctionVariable.call_apply
    own = types.FunctionType(kept, plain.__globals__, "apply", None, plain.__closure__)
    before = plain.__globals__.get(_NAME)

    def apply(cls: Any, args: Any, kwargs: Any) -> Any:
        if cls.__module__.startswith(_INNER):
            return own(cls, *args, **kwargs)
        return _applied(cls, args, kwargs, calls)

    def lost(variable: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{IN_BYTE_CODE} {variable.fn_cls.__name__}")

    _operator()
    plain.__globals__[_NAME] = apply
    plain.__code__ = _standing_in(kept)
    AutogradFunctionVariable.call_apply = lost
    try:
        yield
    finally:
        plain.__code__ = kept
        plain.__globals__[_NAME] = before
        AutogradFunctionVariable.call_apply = kept_in_byte_code


def _applied(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], calls: Calls) -> Any:
    torch = load_torch()
    args, kwargs = _bound(cls, args, kwargs)
    carrying = [_carries(one) for one in args]
    context = _Context(carrying)
    found = _forward(cls, context, args, kwargs)
    outputs = found if isinstance(found, tuple) else (found,)
    without = {id(one) for one in context.non_differentiable}
    results: list[Any] = []
    places: list[int | None] = []
    # A tensor that stands twice among them is torch's last one: the seed of the other is zero.
    last = {id(one): number for number, one in enumerate(outputs)}
    for number, one in enumerate(outputs):
        counts = _carries(one) and id(one) not in without and last[id(one)] == number
        places.append(len(results) if counts else None)
        if places[-1] is not None:
            results.append(one)
    given = tuple(place for place, one in enumerate(carrying) if one)
    if not results or not given:
        # Nothing goes back, whatever the forward read beside its arguments.
        back = tuple(map(_stopped, outputs))
        return back if isinstance(found, tuple) else back[0]
    seen = [args[place] for place in given]
    left = _saved(context, [*results, *seen])
    everything = [*results, *seen, *left[1]]
    calls.append(
        Call(
            cls,
            left[0],
            given,
            len(args),
            tuple(places),
            tuple(_meta(one) for one in everything),
            {
                place: _meta(one) if isinstance(one, torch.Tensor) else None
                for place, one in enumerate(outputs)
                if places[place] is None
            },
            _here(),
        )
    )
    named = _operator()(results, everything[len(results) :], len(calls) - 1)
    places = [places[last[id(one)]] for one in outputs]
    back = tuple(
        named[place] if place is not None else _stopped(one)
        for place, one in zip(places, outputs, strict=True)
    )
    return back if isinstance(found, tuple) else back[0]


def _carries(value: Any) -> bool:
    """Whether torch gives it a derivative."""
    tensor = isinstance(value, load_torch().Tensor)
    return tensor and (value.is_floating_point() or value.is_complex())


def _bound(
    cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with those that a `forward` without `ctx` has by default, as torch has them:
    `setup_context` sees them, and the backward gives a share for each."""
    from torch.autograd.function import _is_setup_context_defined

    if not _is_setup_context_defined(cls.setup_context):
        return args, kwargs
    given = inspect.signature(cls.forward).bind(*args, **kwargs)
    given.apply_defaults()
    return given.args, given.kwargs


def _forward(cls: Any, context: _Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from torch.autograd.function import _is_setup_context_defined

    if not _is_setup_context_defined(cls.setup_context):
        return cls.forward(context, *args, **kwargs)
    found = cls.forward(*args, **kwargs)
    cls.setup_context(context, args, found)
    return found


def _stopped(output: Any) -> Any:
    """An output that the program says has no derivative."""
    return output.detach() if hasattr(output, "detach") else output


def _meta(tensor: Any) -> Meta:
    return Meta(tuple(int(extent) for extent in tensor.shape), tensor.dtype)


def _saved(context: _Context, known: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """What stands in the context, with `Saved` for tensors, and the tensors that are not `known`.
    A tensor keeps its number by identity, as a result that is saved is the result itself."""
    tensor = load_torch().Tensor
    numbers = {id(one): place for place, one in reversed(list(enumerate(known)))}
    more: list[Any] = []

    def replaced(value: Any) -> Any:
        if isinstance(value, tensor):
            if id(value) not in numbers:
                numbers[id(value)] = len(known) + len(more)
                more.append(value)
            return Saved(numbers[id(value)])
        return _mapped(value, replaced)

    kept = {name: one for name, one in vars(context).items() if name != "non_differentiable"}
    left = {name: replaced(value) for name, value in kept.items()}
    return left, more


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of plain containers with its parts changed."""
    if type(value) in (list, tuple):
        return type(value)(change(one) for one in value)
    if type(value) is dict:
        return {key: change(one) for key, one in value.items()}
    return value


def trace_backward(call: Call, calls: Calls) -> Any:
    """The graph module of a call's backward: (results, operands, saved, seeds of the results) ->
    a share for each operand, of its shape and dtype.

    Raises:
        Exception: what the program's backward, or torch's tracer, raises.
    """
    torch = load_torch()
    from torch.fx.experimental.proxy_tensor import make_fx

    whole = len(call.metas)

    def zeros(context: _Context, number: int) -> Any:
        meta = call.others[number] if context.materialize_grads else None
        return None if meta is None else torch.zeros(meta.shape, dtype=meta.dtype)

    def run(*given: Any) -> tuple[Any, ...]:
        def restored(value: Any) -> Any:
            return given[value.place] if isinstance(value, Saved) else _mapped(value, restored)

        context = _Context()
        vars(context).update({name: restored(value) for name, value in call.context.items()})
        seeds = [
            given[whole + place] if place is not None else zeros(context, number)
            for number, place in enumerate(call.outputs)
        ]
        found = call.backward(context, *seeds)
        shares = found if isinstance(found, tuple | list) else (found,)
        return tuple(
            _share(shares[place], given[call.results + number])
            for number, place in enumerate(call.given)
        )

    metas = [*call.metas, *call.metas[: call.results]]
    examples = [torch.empty(one.shape, dtype=one.dtype) for one in metas]
    with torch.no_grad(), watched(calls):
        functional = torch.func.functionalize(run, remove="mutations_and_views")
        return make_fx(functional, tracing_mode="fake", record_stack_traces=True)(*examples)


def _share(share: Any, operand: Any) -> Any:
    """As torch's engine takes it: nothing is zero, and what was broadcast is summed."""
    if share is None:
        return load_torch().zeros_like(operand)
    if share.shape != operand.shape:
        share = share.sum_to_size(operand.shape)
    return share.to(operand.dtype)
