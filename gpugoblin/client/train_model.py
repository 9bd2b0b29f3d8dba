"""The loss of a model as a graph, with its tensors laid out in flat arrays.

Owns: the step from a torch module, or a function of lazy arrays, to what a training is submitted
with. Must not: give a gradient (the lab node makes it, from the graph; here it is only
tried, so that its refusal names the program's line), or send anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpugoblin.capture.array import Array, from_source
from gpugoblin.capture.caller import Place
from gpugoblin.capture.lower import lower
from gpugoblin.capture.source import MemorySource, NodeSource
from gpugoblin.catalog.spec import DTYPES, TensorSpec
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.errors import CaptureError, ClientError, GraphError
from gpugoblin.graph.builder import GraphBuilder
from gpugoblin.graph.grad import gradient, located
from gpugoblin.graph.ir import Graph
from gpugoblin.hashing import JOB, digest
from gpugoblin.wire.messages.training import GraphSlot, NamedTensor

__all__ = ["TrainModel", "from_function", "from_torch", "is_torch"]


@dataclass(frozen=True, slots=True)
class TrainModel:
    """A loss as a graph.

    Args:
        graph: outputs: the loss, then the buffers that the program writes.
        slots: what its inputs are. updates: which inputs those outputs become.
        tensors: the model's own, by name, in flat arrays.
        flat: those arrays by kind. fixed: flat arrays of what never changes.
        constants: where in them each is, by dtype, shape and hash.
    """

    graph: Graph
    slots: tuple[GraphSlot, ...]
    updates: tuple[int, ...]
    tensors: tuple[NamedTensor, ...]
    flat: Mapping[str, NumpyArray]
    fixed: tuple[NumpyArray, ...]
    constants: Mapping[tuple[str, tuple[int, ...], str], GraphSlot] = field(default_factory=dict)


class _Layout:
    """Tensors on their way into flat arrays; with `beside` into those of a model that is trained,
    whose tensors are where they are there."""

    def __init__(self, beside: TrainModel | None = None) -> None:
        self._parts: dict[str, list[NumpyArray]] = {"parameter": [], "buffer": [], "count": []}
        self._fixed: dict[str, list[NumpyArray]] = {}
        self.tensors: list[NamedTensor] = []
        self.constants: dict[tuple[str, tuple[int, ...], str], GraphSlot] = {}
        self._known: dict[str, NamedTensor] | None = None
        if beside is not None:
            self._known = {one.name: one for one in beside.tensors}
            self._fixed = {str(one.dtype): [one] for one in beside.fixed}
            self.constants = dict(beside.constants)

    def own(self, kind: Any, name: str, array: NumpyArray) -> GraphSlot:
        """A tensor of the model that changes; an empty kind: none that does."""
        if self._known is not None:
            known = self._known.get(name[:1024])
            return GraphSlot(known.kind, 0, known.offset) if known else self.constant(array)
        if not kind:
            return self.constant(array)
        offset = sum(part.size for part in self._parts[kind])
        self._parts[kind].append(array.reshape(-1))
        self.tensors.append(NamedTensor(kind, name[:1024], offset, tuple(array.shape)))
        return GraphSlot(kind, 0, offset)

    def constant(self, array: NumpyArray) -> GraphSlot:
        """A tensor that never changes."""
        array = np.ascontiguousarray(array)
        name = (str(array.dtype), array.shape, digest(JOB, [array.tobytes()]))
        if name not in self.constants:
            self.constants[name] = self._new(array)
        return self.constants[name]

    def _new(self, array: NumpyArray) -> GraphSlot:
        group = self._fixed.setdefault(str(array.dtype), [])
        offset = sum(part.size for part in group)
        group.append(array.reshape(-1))
        return GraphSlot("fixed", list(self._fixed).index(str(array.dtype)), offset)

    def flat(self) -> dict[str, NumpyArray]:
        return {kind: _joined(parts) for kind, parts in self._parts.items() if _size(parts)}

    def fixed(self) -> tuple[NumpyArray, ...]:
        return tuple(_joined(parts) for parts in self._fixed.values())


def _size(parts: Sequence[NumpyArray]) -> int:
    return sum(part.size for part in parts)


def _joined(parts: Sequence[NumpyArray]) -> NumpyArray:
    return np.ascontiguousarray(np.concatenate(parts))


def is_torch(model: object) -> bool:
    """Whether a model is a torch module, without importing torch."""
    return any(f"{kind.__module__}.{kind.__name__}".startswith("torch.nn.modules.module.Module")
               for kind in type(model).__mro__)  # fmt: skip


def from_torch(
    model: Any, loss: Callable[..., Any] | None, batch: Sequence[NumpyArray], place: Place,
    beside: TrainModel | None = None,
) -> TrainModel:  # fmt: skip
    """The loss of a torch module on a batch, captured in a child process.

    Args:
        loss: see `gg.train`; None: the module itself gives the loss.
        batch: an example of a micro-batch.
        beside: what is trained, where this is its evaluation: running statistics, which an
            evaluation reads and does not write, are those of the training.

    Raises:
        CaptureError: as `gg.capture`.
        ClientError: `loss_refused`, `model_not_trainable`.
    """
    from gpugoblin.capture.torch.capturing import capture
    from gpugoblin.capture.torch.library import load_torch

    torch = load_torch()
    step = _loss_module(torch, model, loss)
    found = capture(step, [torch.from_numpy(np.array(one)) for one in batch])
    count = len(found.outputs)
    first = found.graph.output_specs()[0]
    if count != 1 or first.count != 1 or first.dtype != "float32":
        shapes = ", ".join(map(str, found.graph.output_specs()[: sum(found.outputs)]))
        raise ClientError("loss_refused", line=place, found=shapes)
    trained = {
        name
        for name, tensor in step.named_parameters(remove_duplicate=False)
        if tensor.requires_grad
    }
    layout, slots, numbers = _Layout(beside), [], {}
    for number, (one, spec) in enumerate(zip(found.inputs, found.graph.inputs, strict=True)):
        if one.part:
            raise ClientError(
                "model_not_trainable", line=place, reason=f"{one.name} has complex numbers"
            )
        name = one.name.removeprefix("model.")
        numbers[one.name] = number
        if one.kind == "argument":
            slots.append(GraphSlot("data", int(one.name.removeprefix("argument"))))
        elif one.kind == "key":
            slots.append(GraphSlot("key"))
        elif one.kind == "constant":
            slots.append(layout.constant(np.asarray(one.data)))
        else:
            array = found.weights[one.name].astype(DTYPES[spec.dtype], copy=False)
            kind = _kind(one, spec, trained, found.updates)
            slots.append(layout.own(kind, name, array))
    if beside is None:
        _require_gradient(found.graph, slots, found.lines, place, found.backwards)
    graph, slots = _all_data(found.graph, slots, batch)
    return _made(graph, slots, [numbers[name] for name in found.updates], layout, place)


def _kind(one: Any, spec: TensorSpec, trained: set[str], updates: Sequence[str]) -> str:
    """What a parameter or buffer is; empty where it never changes."""
    if one.name in trained:
        return "parameter"
    if one.name in updates:
        return "count" if spec.dtype == "int64" else "buffer"
    return ""


def _loss_module(torch: Any, model: Any, loss: Callable[..., Any] | None) -> Any:
    """One module that gives the loss of a batch."""
    whole = loss is not None and _takes_model(loss)

    class Loss(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            if isinstance(loss, torch.nn.Module):
                self.loss = loss

        def forward(self, *batch: Any) -> Any:
            if loss is None:
                return self.model(*batch)
            if whole:
                return loss(self.model, *batch)
            if len(batch) == 1:
                return loss(self.model(*batch))
            *given, target = batch
            return loss(self.model(*given), target)

    made = Loss()
    made.train(model.training)
    return made


def _takes_model(loss: Callable[..., Any]) -> bool:
    """Whether a loss is written as loss(model, *batch): by the name of its first parameter."""
    try:
        names = list(inspect.signature(loss).parameters)
    except (TypeError, ValueError):
        return False
    return bool(names) and names[0] == "model"


def _all_data(
    graph: Graph, slots: list[GraphSlot], batch: Sequence[NumpyArray]
) -> tuple[Graph, list[GraphSlot]]:
    """The graph with an input for every array of a batch, also for one that the loss never reads:
    the arrays of a training are numbered by the batch."""
    read = {slot.array for slot in slots if slot.kind == "data"}
    missing = [number for number in range(len(batch)) if number not in read]
    if not missing:
        return graph, slots
    from gpugoblin.catalog.bodies import replay

    builder = GraphBuilder()
    values = [builder.input(spec) for spec in graph.inputs]
    for number in missing:
        builder.input(TensorSpec(str(batch[number].dtype), batch[number].shape))
    made = builder.build(replay(graph, builder, values))
    return made, [*slots, *(GraphSlot("data", number) for number in missing)]


def _require_gradient(
    graph: Graph, slots: Sequence[GraphSlot], lines: Mapping[int, object], place: Place,
    more: Sequence[str] = (),
) -> None:  # fmt: skip
    """Requires that the loss has a gradient by its parameters."""
    wrt = [number for number, slot in enumerate(slots) if slot.kind == "parameter"]
    try:
        gradient(graph, wrt)
    except GraphError as cause:
        told = " ".join([str(located(cause, lines)), *more]).rstrip(".")
        raise ClientError("model_not_trainable", line=place, reason=told) from cause


def _made(
    graph: Graph, slots: Sequence[GraphSlot], updates: Sequence[int], layout: _Layout, place: Place
) -> TrainModel:
    if not any(slot.kind == "parameter" for slot in slots):
        reason = "it has no parameter that the loss reads and that may be trained"
        raise ClientError("model_not_trainable", line=place, reason=reason)
    return TrainModel(
        graph, tuple(slots), tuple(updates), tuple(layout.tensors), layout.flat(), layout.fixed(),
        layout.constants,
    )  # fmt: skip


def from_function(
    loss: Callable[..., Array],
    parameters: Mapping[str, NumpyArray],
    batch: Sequence[NumpyArray],
    place: Place,
    beside: TrainModel | None = None,
) -> TrainModel:
    """The loss of a function of lazy arrays: `loss(parameters, *batch)`.

    Raises:
        CaptureError: what the function says that has no graph.
        ClientError: `loss_refused`, `model_not_trainable`.
    """
    weights = {name: np.ascontiguousarray(np.asarray(one)) for name, one in parameters.items()}
    for name, array in weights.items():
        if array.dtype != np.float32:
            reason = f"{name} has dtype {array.dtype}; parameters are float32"
            raise ClientError("model_not_trainable", line=place, reason=reason)
    lazy = {name: _stand(f"parameter {name}", one, place) for name, one in weights.items()}
    given = [_stand(f"data {number}", one, place) for number, one in enumerate(batch)]
    found = loss(lazy, *given)
    spec = TensorSpec(str(found.dtype), found.shape) if isinstance(found, Array) else None
    if spec is None or spec.count != 1 or spec.dtype != "float32":
        told = spec or type(found).__name__
        raise ClientError("loss_refused", line=place, found=told)
    made = lower([found.value])
    layout, slots = _Layout(beside), []
    names = {f"parameter {name}": name for name in weights}
    for source in made.sources:
        if isinstance(source, MemorySource):
            slots.append(layout.constant(source.array))
        elif isinstance(source, NodeSource) and source.fingerprint in names:
            name = names[source.fingerprint]
            slots.append(layout.own("parameter", name, weights[name]))
        elif isinstance(source, NodeSource) and source.fingerprint.startswith("data "):
            slots.append(GraphSlot("data", int(source.fingerprint.removeprefix("data "))))
        else:
            raise CaptureError(
                "argument_refused", line=place, operator="gg.train", operands=source.name,
                cause="the loss reads a file beside its data",
                fix="Pass the file in data=, or its numbers as an array.",
            )  # fmt: skip
    if beside is None:
        _require_gradient(made.graph, slots, made.names.lines, place)
    graph, every = _all_data(made.graph, slots, batch)
    return _made(graph, every, (), layout, place)


def _stand(name: str, array: NumpyArray, place: Place) -> Array:
    spec = TensorSpec(str(array.dtype), array.shape)
    return from_source(NodeSource("", "", spec, name, place=place))
